#!/usr/bin/env bash
# Builds llama-server, a server that is not ours, for tests of `cutaway attach`: build/peer/llama-server, for this CPU
# alone, once. The source is llama.cpp as the source archive of llama-cpp-python has it, which pip fetches and checks.
# JOBS=2 limits the compilers; about 20 minutes on two cores. ISA=avx2 makes build/peer/llama-server-avx2, without AVX-512.
set -euo pipefail
cd "$(dirname "$0")/.."
version=0.3.36 jobs=${JOBS:-$(nproc)} work=build/peer/source out=build/peer/llama-server${ISA:+-$ISA}
case ${ISA-} in
'') for_cpu=-DGGML_NATIVE=ON ;;
avx2) for_cpu='-DGGML_NATIVE=OFF -DGGML_AVX2=ON -DGGML_FMA=ON -DGGML_F16C=ON -DGGML_BMI2=ON' ;;
*) echo "ISA=$ISA: only avx2 is known" >&2; exit 2 ;;
esac

[ ! -x "$out" ] || exit 0
tools/setup.sh model peer
mkdir -p "$work"
if [ ! -d "$work/llama_cpp_python-$version" ]; then
	python3 -m pip download --quiet --disable-pip-version-check --no-deps --no-binary llama-cpp-python \
		--dest "$work" "llama-cpp-python==$version"
	tar -xzf "$work/llama_cpp_python-$version.tar.gz" -C "$work"
fi
# shellcheck disable=SC2086 # several options
cmake -S "$work/llama_cpp_python-$version/vendor/llama.cpp" -B "$work/made" -G Ninja -DCMAKE_BUILD_TYPE=Release \
	-DBUILD_SHARED_LIBS=OFF $for_cpu -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF \
	-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF >"$work/configure.log" 2>&1 ||
	{ tail -n 20 "$work/configure.log" >&2; exit 1; }
echo "Compiling llama-server into build/peer: about 20 minutes on two cores."
nice ninja -C "$work/made" -j "$jobs" llama-server >"$work/build.log" 2>&1 ||
	{ tail -n 20 "$work/build.log" >&2; exit 1; }
mv "$work/made/bin/llama-server" "$out"
rm -r "$work"
