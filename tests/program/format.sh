#!/bin/sh
# All C and CUDA is as .clang-format says (100 columns). TAP. `tests/program/format.sh --write` formats it.
# Versions of clang-format differ in details: only the one that wrote the sources is asked.
cd "$(dirname "$0")/../.." || exit 1
version=14
for tool in clang-format-$version clang-format; do
	command -v $tool >/dev/null && $tool --version | grep -q "version $version\." && break
	tool=
done
if [ -z "$tool" ]; then
	echo "1..0 # SKIP there is no clang-format $version"
	exit 0
fi
sources() {
	find base kernels event engine fold trace sessions serve load simulate lab tui cli tests tools \
		\( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cpp' \) -print0
}
if [ "$1" = --write ]; then
	sources | xargs -0 -n 40 -P "$(getconf _NPROCESSORS_ONLN)" $tool -i
	exit
fi
found=$(sources | xargs -0 -n 40 -P "$(getconf _NPROCESSORS_ONLN)" $tool --dry-run 2>&1 | grep warning:)
echo "1..1"
[ -z "$found" ] && echo "ok 1 - the sources are as .clang-format says" && exit 0
echo "not ok 1 - the sources are as .clang-format says (tests/program/format.sh --write)"
echo "$found" | sed 's/^/# /' | head -40
exit 1
