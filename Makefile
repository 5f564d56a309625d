# cutaway: see README.md. `make help` lists the targets.
ifeq ($(origin CC),default)
CC = gcc
endif
CFLAGS ?= -O2 -g
# Kernels are worth a longer look of the compiler; where variables are it takes as long to say, and -O3 leaves few.
KERNEL_CFLAGS ?= -O3 -g1
BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
# For `make chat`: what follows `./cutaway chat`.
ARGS ?=
# For `make model`: a name that `make models` lists.
MODEL ?= smollm2

# SANITIZE=1: the build under AddressSanitizer and UndefinedBehaviorSanitizer, for the C suites and the fuzz targets. It is clang's, with
# the coverage that libFuzzer needs; without clang gcc's, and there are no fuzz targets. Of the checks that are left out ASan sees the
# effect; without them it compiles in four fifths of the time, the vector kernels in half.
ifdef SANITIZE
CLANG := $(shell command -v clang 2>/dev/null)
override CC := $(if $(CLANG),$(filter ccache,$(CC)) clang,$(CC))
override BUILD := build-asan
override CFLAGS := -O1 -g1 -fsanitize=address,undefined -fno-sanitize=null,object-size,pointer-overflow \
	-fno-sanitize-recover=undefined -fno-omit-frame-pointer $(if $(CLANG),-fsanitize=fuzzer-no-link -D__SANITIZE_ADDRESS__=1)
NO_COVERAGE := $(if $(CLANG),-fno-sanitize=fuzzer-no-link)
override KERNEL_CFLAGS := $(NO_COVERAGE)
endif

# V=1 shows whole commands.
V ?=
step = $(if $(V),,@echo '  $(1)	$(2)' &&)

# One job a core, unless the caller said how many; what make calls shares them, so its lines begin with +.
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 2)
endif

ALL_CFLAGS = -std=c11 -D_GNU_SOURCE -I. -ffp-contract=off -fno-math-errno -Wall -Wextra -Wshadow \
	-Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -pthread $(CFLAGS) $(EXTRA_CFLAGS)
LDLIBS = -lncursesw -ltinfo -lreadline -lsqlite3 -lutf8proc -lnettle -lxxhash -lmd4c -lmicrohttpd -lcjson -lcurl -lm -pthread

# Every .c in these folders, at any depth, belongs to the program; cli/main.c alone has main().
FOLDERS = base kernels event engine fold trace sessions serve load simulate lab tui cli
# cutaway-mpi.so alone is made of the one that needs MPI.
MPI_SOURCE = engine/ranks/mpi_module.c
SOURCES := $(filter-out cli/main.c $(MPI_SOURCE), $(shell find $(wildcard $(FOLDERS)) -name '*.c' | LC_ALL=C sort))
# Kernels of another processor's instruction sets are left out; those of vectors of 8 floats have two.
MACHINE := $(firstword $(subst -, ,$(shell $(CC) -dumpmachine 2>/dev/null)))
SOURCES := $(filter-out $(if $(filter x86_64,$(MACHINE)),%_neon.c %_i8mm.c,%_avx2.c %_avxvnni.c %_avx512.c \
	$(if $(filter aarch64,$(MACHINE)),,%_neon.c %_i8mm.c %_vec8.c)), $(SOURCES))
# EMULATE=1: a program that has all kernels of x86 wherever there is AVX2, those of AVX-512 and AVX-VNNI by the tests' emulation, so
# that `make test EMULATE=1` is the suite of a processor with both. Slow; in a checkout of its own.
EMULATED = avx512_simde avx512_simde_attention avxvnni_emulated
ifdef EMULATE
SOURCES := $(filter-out %_avxvnni.c %_avx512.c, $(SOURCES))
$(BUILD)/tests/unit/kernels/test_isa.o: ISA = -DEMULATED_PROGRAM
endif
OBJECTS := $(SOURCES:%.c=$(BUILD)/%.o) $(if $(EMULATE),$(EMULATED:%=$(BUILD)/emulated/%.o))
# PROVED=1: the kernels passed (tests/proved.txt). Their vectors, a quarter of what the sanitizers' build takes, are the plain build's,
# and the build of the CUDA kernels that looks at each access, a minute of one core, is left out.
PROVED ?=
VECTORS = $(if $(SANITIZE),$(if $(PROVED),%_avx2.o %_avxvnni.o %_avx512.o))
OBJECTS := $(filter-out $(VECTORS),$(OBJECTS)) $(patsubst $(BUILD)/%,build/%,$(filter $(VECTORS),$(OBJECTS)))
# The plain build leaves its program beside this file, any other in its own folder.
PROGRAM := $(if $(filter build,$(BUILD)),cutaway,$(BUILD)/cutaway)

$(PROGRAM): $(BUILD)/cli/main.o $(BUILD)/libcutaway.a
	$(call step,LINK,$@) $(CC) $(ALL_CFLAGS) -o $@ $^ $(LDLIBS)

# A file that says whose they are, so that the library is made anew when that changes.
VECTORS_STATE := $(BUILD)/vectors$(if $(VECTORS),-plain)
$(VECTORS_STATE):
	@mkdir -p $(@D) && rm -f $(BUILD)/vectors* && touch $@
$(BUILD)/libcutaway.a: $(OBJECTS) $(VECTORS_STATE)
	$(call step,AR,$@) rm -f $@ && ar rcs $@ $(OBJECTS)

# Kernels of one instruction set each are compiled for it; which one runs is chosen at run time.
$(BUILD)/kernels/%.o: OPT = $(KERNEL_CFLAGS)
$(BUILD)/lab/%.o $(BUILD)/engine/model/form.o $(BUILD)/engine/observe/influence.o: OPT = $(KERNEL_CFLAGS)
# Shares of attention are summed over heads here, in every step.
$(BUILD)/engine/observe/observe.o: OPT = $(KERNEL_CFLAGS)
# What is hot, and no fuzz target is for.
$(foreach f,engine/memory engine/sched simulate load tests/support tests/unit,$(BUILD)/$(f)/%.o): OPT = $(NO_COVERAGE)
ISA_VEC8 = $(if $(filter x86_64,$(MACHINE)),-mavx2 -mfma -mf16c,$(if $(filter aarch64,$(MACHINE)),-march=armv8.2-a+dotprod))
$(BUILD)/kernels/%_vec8.o $(BUILD)/kernels/%_avx2.o $(BUILD)/kernels/%_neon.o: ISA = $(ISA_VEC8)
$(BUILD)/kernels/%_i8mm.o: ISA = $(ISA_VEC8)+i8mm
# AVXVNNI="-mavx512vnni -mavx512vl" runs these on processors whose VNNI is that of AVX-512.
AVXVNNI ?= -mavxvnni
$(BUILD)/kernels/%_avxvnni.o: ISA = $(AVXVNNI) -mavx2 -mfma -mf16c
$(BUILD)/kernels/%_avx512.o: ISA = -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c

# Asked once for each folder of a build: a missing header would say less. What gcc made for the sanitizers clang makes anew.
ASKED := $(BUILD)/packages$(if $(CLANG),-clang)
$(ASKED):
	@CC="$(CC)" tools/setup.sh --check build
	@mkdir -p $(@D) && rm -f $(BUILD)/packages* && touch $@

$(BUILD)/%.o: %.c $(if $(SANITIZE),$(ASKED)) | $(ASKED)
	@mkdir -p $(@D)
	$(call step,CC,$<) $(CC) $(ALL_CFLAGS) $(OPT) $(ISA) -MMD -MP -c -o $@ $<

# Kernels for a GPU: `make cuda` compiles them, which takes nvcc minutes, into the program, which opens the
# driver when it runs. Once they are there a plain make keeps them in; CUDA=0 leaves them out.
NVCC ?= $(shell command -v nvcc 2>/dev/null)
CUDA ?= $(if $(NVCC),$(if $(wildcard build/cuda/kernels.fatbin),1,0),0)
CUDA_ARCHS ?= 80 90
CUDA_PTX = $(lastword $(CUDA_ARCHS))
CUDA_IMAGE ?= build/cuda/kernels.fatbin
# Rule 1 of docs/arithmetic.md.
NVCC_EXACT ?= --fmad=false -ftz=false -prec-div=true -prec-sqrt=true
# No kernel may have more registers than two blocks a multiprocessor leave.
NVCC_FLAGS = -std=c++17 -I. -O3 -maxrregcount=128 $(NVCC_EXACT) -Werror all-warnings
NVCC_TOOLKIT = $(shell $(NVCC) --version | sed -n 's/.*release \([0-9]*\)\.\([0-9]*\).*/\1 \2/p' | awk '{ print $$1 * 1000 + $$2 * 10 }')
$(CUDA_IMAGE): kernels/cuda/kernels.cu
	@mkdir -p $(@D)
	$(call step,NVCC,$<) $(NVCC) $(NVCC_FLAGS) -MD -MP -MF $(@:.fatbin=.d) -MT $@ -fatbin --threads 0 \
		$(foreach a,$(CUDA_ARCHS),-gencode arch=compute_$(a),code=sm_$(a)) \
		-gencode arch=compute_$(CUDA_PTX),code=compute_$(CUDA_PTX) -o $@ $<
# -ptx looks at its result with registers of no architecture, and refuses any number of them.
build/cuda/kernels.ptx: build/cuda/kernels.fatbin
	$(call step,NVCC,$@) $(NVCC) $(filter-out -maxrregcount=%,$(NVCC_FLAGS)) -ptx -arch=compute_$(CUDA_PTX) -o $@ \
		kernels/cuda/kernels.cu

# A file that says with or without, so that image.o is made anew when that changes.
CUDA_STATE := $(BUILD)/kernels/cuda/with-$(CUDA)
$(CUDA_STATE):
	@mkdir -p $(@D) && rm -f $(@D)/with-* && touch $@
$(BUILD)/kernels/cuda/image.o: $(CUDA_STATE)
ifeq ($(CUDA),1)
$(BUILD)/kernels/cuda/image.o: $(CUDA_IMAGE)
$(BUILD)/kernels/cuda/image.o: ALL_CFLAGS += -DCUTAWAY_CUDA_IMAGE='"$(CUDA_IMAGE)"' \
	-DCUTAWAY_CUDA_TOOLKIT=$(NVCC_TOOLKIT) \
	-DCUTAWAY_CUDA_ARCHS='"$(foreach a,$(CUDA_ARCHS),sm_$(a)) compute_$(CUDA_PTX)"'
endif

# Prompts, lessons, the texts of F1, the help of verbs and the end of the manual page are part of the program (base/embed.h).
$(BUILD)/base/prompts.o: demos/prompts.txt
$(BUILD)/sessions/lesson/lesson_shipped.o: $(wildcard demos/lessons/*.md)
$(BUILD)/tui/views/view_help.o: $(wildcard tui/views/help/*.txt)
$(BUILD)/sessions/lesson/lesson_files.o: sessions/lesson/lesson_new.md
$(BUILD)/cli/help.o: cli/manual_end.man
$(BUILD)/cli/verbs.o: $(wildcard cli/help/*.txt)
SCREEN_HELP := $(wildcard tui/*/*.txt)
$(foreach t,$(SCREEN_HELP:.txt=),$(eval $(BUILD)/$(t).o: $(t).txt))
# The page of `export --to html` likewise.
$(BUILD)/sessions/export/export_html.o: sessions/export/export_page.html
# The session event of a recording says how the program was built.
$(BUILD)/engine/%.o $(BUILD)/cli/%.o: ALL_CFLAGS += -DCUTAWAY_FLAGS='"$(strip $(CFLAGS) $(EXTRA_CFLAGS))"'

# C tests: each test_x.c becomes the program build/tests/test_x, which speaks TAP (cmocka with
# CMOCKA_MESSAGE_OUTPUT=TAP). A file without a main() is a part that any of them may use.
TEST_SOURCES := $(shell find tests/unit tests/cuda tests/bench tests/support -maxdepth 2 -name '*.c' -not -path '*/shim/*' | LC_ALL=C sort)
TEST_PARTS := $(shell grep -L '^int main' $(TEST_SOURCES)) tests/cuda/shim/client.c
TEST_PROGRAMS := $(filter-out $(TEST_PARTS), $(TEST_SOURCES))
# Code for processors without AVX-512 or AVX-VNNI, emulated on AVX2, is half a minute's work of the compiler: only programs that hold
# it against the kernels are linked with it, and all builds have the same.
EMULATED_TESTS := $(EMULATED:%=build/tests/support/%.o)
EMULATING := $(shell grep -lE 'support/(contexts|isa_rig)\.h' $(TEST_PROGRAMS))
TEST_PARTS := $(filter-out $(EMULATED:%=tests/support/%.c),$(TEST_PARTS))
build/tests/libemulated.a: $(EMULATED_TESTS)
	$(call step,AR,$@) rm -f $@ && ar rcs $@ $^
EMULATED_FLAGS = -std=c11 -D_GNU_SOURCE -I. -ffp-contract=off -fno-math-errno -Wall -Wextra -Wno-psabi -pthread -O2 $(ISA_VEC8)
$(EMULATED_TESTS): build/%.o: %.c
	@mkdir -p $(@D)
	$(call step,CC,$@) $(CC) $(EMULATED_FLAGS) -MMD -MP -c -o $@ $<
$(EMULATED:%=$(BUILD)/emulated/%.o): ISA = $(ISA_VEC8) -Wno-psabi -g0
$(BUILD)/emulated/%.o: tests/support/%.c | $(ASKED)
	@mkdir -p $(@D)
	$(call step,CC,$@) $(CC) $(ALL_CFLAGS) $(KERNEL_CFLAGS) $(ISA) -DEMULATED_PROGRAM -MMD -MP -c -o $@ $<
$(BUILD)/tests/libtests.a: $(TEST_PARTS:%.c=$(BUILD)/%.o)
	$(call step,AR,$@) rm -f $@ && ar rcs $@ $^
# LLVM's linker takes half the time.
QUICK_LINK := $(if $(shell command -v ld.lld),-fuse-ld=lld)
LINK_TEST = $(call step,LINK,$@) rm -f $@ && $(CC) $(ALL_CFLAGS) $(QUICK_LINK) -o $@ $(1) -lcmocka -lcjson $(LDLIBS)
# A suite whose main() takes nothing, and which brings no malloc() and no table of its own, has one that is called test_x_main:
# `tests-build` links them all into one program (tests/suites.c), which stands there under the name of each; asked for by its name
# a suite is a program of its own.
JOINED := $(shell grep -lE '^int main.void.' $(filter tests/unit/% tests/cuda/%,$(TEST_PROGRAMS)))
JOINED := $(shell grep -LE '^void .malloc|support/allocations\.h|^const struct .*\[\] = ' $(JOINED))
$(JOINED:%.c=$(BUILD)/%.o): ALL_CFLAGS += -Dmain=$(*F)_main -Wno-missing-prototypes
define test_rule
$(BUILD)/tests/$(notdir $(1)): $(BUILD)/$(1).o $(BUILD)/tests/libtests.a \
		$(if $(filter $(1).c,$(EMULATING)),build/tests/libemulated.a) $(BUILD)/libcutaway.a
	$$(call LINK_TEST,$$^ $(if $(filter $(1).c,$(JOINED)),-Xlinker --defsym=main=$(notdir $(1))_main))
endef
$(foreach t,$(TEST_PROGRAMS:.c=),$(eval $(call test_rule,$(t))))

# Fuzz targets are linked with what the C suites are (tests/fuzz/run.sh runs them).
FUZZ := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))
$(FUZZ): %: %.o $(BUILD)/tests/libtests.a $(BUILD)/libcutaway.a
	$(call step,LINK,$@) $(CC) $(ALL_CFLAGS) $(QUICK_LINK) -fsanitize=fuzzer -o $@ $^ -lcmocka -lcjson $(LDLIBS)
fuzz-build: $(if $(CLANG),$(FUZZ))

# The tests of the kernels for another processor, whose libraries are not here (tests/program/test_arm.sh).
CROSS_TESTS = $(addprefix $(BUILD)/cross/test_,arith attention codes columns experts fastops format_rules isa kernels \
	pick round route)
CROSS_OBJECTS = $(filter $(BUILD)/kernels/%,$(OBJECTS)) $(addprefix $(BUILD)/,base/err.o base/signals.o \
	tests/support/contexts.o tests/support/isa_rig.o tests/support/blocks.o)
$(BUILD)/libcross.a: $(CROSS_OBJECTS)
	$(call step,AR,$@) rm -f $@ && ar rcs $@ $^
$(BUILD)/cross/%: $(BUILD)/tests/unit/kernels/%.o $(BUILD)/libcross.a
	@mkdir -p $(@D)
	$(call step,LINK,$@) $(CC) $(ALL_CFLAGS) -Xlinker --defsym=main=$(@F)_main -o $@ $^ -lm -pthread
cross-tests: $(CROSS_TESTS)

# Ranks that are processes: opened at run time, beside the program. `make mpi` installs what compiles it.
MPI_MODULE = $(dir $(PROGRAM))cutaway-mpi.so
MPICC ?= mpicc
$(MPI_MODULE): $(MPI_SOURCE) engine/ranks/mpi_module.h engine/ranks/transport.h
	$(call step,MPICC,$@) $(MPICC) $(ALL_CFLAGS) -fPIC -shared -o $@ $<
mpi:
	@tools/setup.sh build mpi
	@+$(SUB) $(PROGRAM) $(MPI_MODULE)

# What tools/train needs of the engine.
$(BUILD)/tools/train/features: $(BUILD)/tools/train/features.o $(BUILD)/libcutaway.a
	$(call step,LINK,$@) $(CC) $(ALL_CFLAGS) -o $@ $^ $(LDLIBS)

# The shim that runs the CUDA kernels on the CPU (tests/cuda/shim/shim.h), twice: fast, with a processor's
# own multiply-add; checked, where the compiler tells of every load and store, and none is used. No
# sanitizer of ours goes in: they do not know fibers.
SHIM := $(filter-out tests/cuda/shim/client.c, $(wildcard tests/cuda/shim/*.c tests/cuda/shim/*.cpp))
SHIM_FLAGS = -I. -O1 -g -fPIC -fno-strict-aliasing -fvisibility=hidden -ffp-contract=off -fno-math-errno -Wall -Wextra -pthread
SHIM_FAST = $(if $(filter x86_64%,$(shell $(CC) -dumpmachine)),-mavx2 -mfma)
SHIM_CHECKED = -DSHIM_CHECKED
SHIM_LIBRARIES = $(BUILD)/tests/libcuda_shim.so $(if $(PROVED),,$(filter build/%,$(BUILD)/tests/libcuda_shim_checked.so))
# What the compiler tells of; calls into the C library go through the checker too.
SHIM_TELLS = -fsanitize=thread,alignment,bounds,shift,integer-divide-by-zero,signed-integer-overflow,bool
SHIM_LIBC = $(foreach f,memcpy memmove memset,--redefine-sym $(f)=check_$(f))
CXX ?= g++
build/tests/libcuda_shim.so: $(SHIM:%=build/%.fast.o)
	$(call step,LINK,$@) $(CC) -shared -o $@ $^ -lm -pthread
build/tests/libcuda_shim_checked.so: $(SHIM:%=build/%.checked.o)
	$(call step,LINK,$@) $(CC) -shared -o $@ $^ -lm -pthread
# Another folder's tests have the same one.
ifneq ($(BUILD),build)
$(BUILD)/tests/libcuda_shim.so: build/tests/libcuda_shim.so
	@mkdir -p $(@D) && cp $< $@
endif
define shim_rules
build/%.c.$(1).o: %.c
	@mkdir -p $$(@D)
	$$(call step,CC,$$<) $$(CC) -std=c11 -D_GNU_SOURCE -Wshadow -Wstrict-prototypes -Wmissing-prototypes \
		-Wpointer-arith $$(SHIM_FLAGS) $(2) -MMD -MP -c -o $$@ $$<
build/%.cpp.$(1).o: %.cpp
	@mkdir -p $$(@D)
	$$(call step,CXX,$$<) $$(CXX) -std=c++17 -fno-exceptions -fno-rtti -Wno-unknown-pragmas \
		-Wno-missing-field-initializers -Wno-maybe-uninitialized $$(SHIM_FLAGS) $(2) -MMD -MP -c -o $$@ $$< $(3)
endef
$(eval $(call shim_rules,fast,$$(SHIM_FAST)))
$(eval $(call shim_rules,checked,$$(SHIM_CHECKED),$$(SHIM_TELLS) && objcopy $$(SHIM_LIBC) $$@))

# SUITES="test_x …": these alone of the C suites, and what is none.
SUITES ?=
TESTS_BUILT = $(if $(SUITES),$(filter-out test_%,$(notdir $(TEST_PROGRAMS:.c=))) $(SUITES),$(notdir $(TEST_PROGRAMS:.c=)))
JOINED_BUILT = $(filter $(notdir $(JOINED:.c=)),$(TESTS_BUILT))
$(BUILD)/tests/suites.def: FORCE
	@mkdir -p $(@D) && printf 'SUITE(%s)\n' $(JOINED_BUILT) >$@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi
$(BUILD)/tests/suites.o: $(BUILD)/tests/suites.def
$(BUILD)/tests/suites.o: ISA = -I$(@D)
# The library whole, so that what a suite defines as well is an error.
$(BUILD)/tests/suites: $(BUILD)/tests/suites.o $(patsubst %,$(BUILD)/%.o,$(filter $(addprefix %/,$(JOINED_BUILT)),$(JOINED:.c=))) \
		$(BUILD)/tests/libtests.a $(if $(filter $(notdir $(EMULATING:.c=)),$(JOINED_BUILT)),build/tests/libemulated.a) $(BUILD)/libcutaway.a
	$(call LINK_TEST,$(filter-out %/libcutaway.a,$^) -Xlinker --whole-archive $(BUILD)/libcutaway.a -Xlinker --no-whole-archive)
tests-build: $(SHIM_LIBRARIES) $(PROGRAM) $(patsubst %,$(BUILD)/tests/%,$(filter-out $(JOINED_BUILT),$(TESTS_BUILT)) $(if $(JOINED_BUILT),suites))
	@for suite in $(JOINED_BUILT); do ln -f $(BUILD)/tests/suites $(BUILD)/tests/$$suite; done
FORCE:

# What needs packages asks for them first and builds in a second make, so that the order holds with -j.
SUB = $(MAKE) --no-print-directory
ASAN = $(SUB) SANITIZE=1

chat:
	@tools/setup.sh build model
	@+$(SUB) cutaway
	@tools/fetch_model.sh
	@./cutaway chat $(ARGS)

# MODEL=gemma: a second one, of another architecture, which tests/program/test_oracle.py tests where it is there.
model:
	@tools/setup.sh model
	@tools/fetch_model.sh $(MODEL)

models:
	@tools/fetch_model.sh --list

# What tests/run will run is built, no more. test-all: C suites plain and under the sanitizers, kernels on each instruction set,
# all cases: before a release. test-kernels: what looks at kernels alone; passed, it is in tests/proved.txt, and `test` leaves it out.
test-all: WHICH = --all
test-kernels: WHICH = --kernels
test test-all test-kernels:
	@tools/setup.sh build model test
	@+$(SUB) $(PROGRAM) $(if $(shell command -v $(MPICC)),$(MPI_MODULE))
	@+$(SUB) tests-build SUITES="$$(tests/run $(WHICH) --list c)" PROVED="$$(tests/run $(WHICH) --list proved)"
	@+$(ASAN) tests-build fuzz-build SUITES="$$(tests/run $(WHICH) --list asan)" PROVED="$$(tests/run $(WHICH) --list proved)"
	@tools/fetch_model.sh
	@tests/run $(WHICH)

# Layers, sizes and form of the sources (clang-format, 100 columns): `make test` asks the same.
lint:
	@tests/run layers sizes format

# The tests of the modules under AddressSanitizer and UndefinedBehaviorSanitizer.
asan:
	@+$(SUB) build/tests/libcuda_shim.so
	@+$(ASAN) tests-build
	@tests/run --only asan

# Each barrier of the CUDA kernels left out in turn: some test must fail. About two minutes of work; in each
# file `make test` leaves out one.
barriers: tests-build
	@tests/cuda/test_cuda_barriers.py --all

fuzz:
	@tools/setup.sh build test
	@+$(ASAN) fuzz-build
	@tests/run --only fuzz

bench: cutaway
	@tools/fetch_model.sh
	@./cutaway bench $(ARGS)

# Every claim of tools/claims/rows.py measured, in docs/claims.md: about half an hour. ARGS="ROW ..." measures these rows again.
claims:
	@tools/setup.sh build model test
	@+$(SUB) cutaway build/tests/mktiny build/tests/dequant
	@tools/fetch_model.sh
	@tools/claims/claims --write $(ARGS)

# Small models that differ in how they mix positions alone, and docs/family.md: hours, and what is there is not made again.
family:
	@tools/setup.sh build model
	@+$(SUB) cutaway
	@tools/fetch_model.sh
	@tools/train/family/all.sh

# llama.cpp on the same file beside it: the first time it compiles that, for about 15 minutes.
bench-peer:
	@tools/setup.sh build model peer
	@+$(SUB) cutaway
	@tools/fetch_model.sh
	@tools/bench/peer.py $(ARGS)

# A server that is not ours, which tests of `cutaway attach` chat through: build/peer/llama-server.
peer-server:
	@tools/llama_server.sh

# The picture in the README, from a real session.
screenshot: cutaway
	@tools/fetch_model.sh
	@tools/screenshot.sh docs/screen.png

# The kernels for a GPU, all architectures, warnings as errors; tests/cuda/test_ptx.sh looks at the PTX.
cuda: build/cuda/kernels.fatbin build/cuda/kernels.ptx
	@+$(SUB) CUDA=1

# On a machine with a GPU: hashes, certificate, compute-sanitizer, and the table of figures; unattended, in parts
# with a limit each (ARGS="SECONDS" in all). Nothing is installed: tools/gpu_report.sh says how to bring what is missing.
test-gpu:
	@tools/gpu_report.sh $(ARGS)

# The same kernels free of the fixed order, for measuring what that costs (docs/arithmetic.md, end).
free-order:
	@+$(SUB) BUILD=build-free CUDA=0 EXTRA_CFLAGS="-DK_FREE_ORDER -ffp-contract=fast"

# And with kernels for a GPU free of it, as far as they can be: sums contracted and in halves, divisions and roots
# approximate.
free-order-cuda:
	@+$(SUB) BUILD=build-free CUDA=1 CUDA_IMAGE=build-free/cuda/kernels.fatbin EXTRA_CFLAGS="-DK_FREE_ORDER -ffp-contract=fast" \
		NVCC_EXACT="-DK_FREE_ORDER --fmad=true -ftz=true -prec-div=false -prec-sqrt=false"

# Both, by turns, with what exactness costs in percent (two minutes).
bench-exactness: cutaway free-order
	@tools/fetch_model.sh
	@tools/bench/exactness.py $(ARGS)

$(BUILD)/cutaway.1: $(PROGRAM)
	./$(PROGRAM) --man >$@
$(BUILD)/cutaway.bash: $(PROGRAM)
	./$(PROGRAM) --completion bash >$@

BIN = $(DESTDIR)$(PREFIX)/bin
LIB = $(DESTDIR)$(PREFIX)/lib/cutaway
MAN = $(DESTDIR)$(PREFIX)/share/man/man1
COMPLETIONS = $(DESTDIR)$(PREFIX)/share/bash-completion/completions

install: $(PROGRAM) $(BUILD)/cutaway.1 $(BUILD)/cutaway.bash
	install -d $(BIN) $(MAN) $(COMPLETIONS)
	install -m 755 $(PROGRAM) $(BIN)/cutaway
	if [ -e $(MPI_MODULE) ]; then install -D -m 644 $(MPI_MODULE) $(LIB)/cutaway-mpi.so; fi
	install -m 644 $(BUILD)/cutaway.1 $(MAN)/cutaway.1
	install -m 644 $(BUILD)/cutaway.bash $(COMPLETIONS)/cutaway

uninstall:
	rm -f $(BIN)/cutaway $(MAN)/cutaway.1 $(COMPLETIONS)/cutaway $(LIB)/cutaway-mpi.so
	-rmdir $(LIB) 2>/dev/null

clean:
	rm -rf build build-arm build-asan build-free build-vl cutaway cutaway-mpi.so

help:
	@echo 'make             build ./cutaway'
	@echo 'make chat        install what is missing, build, fetch the model, start the chat (ARGS="…")'
	@echo 'make test        install what is missing, build, fetch the model, run every test'
	@echo 'make test-all    the C suites both plain and under the sanitizers, too, and all cases'
	@echo 'make test-kernels  what looks at kernels alone: after a change of these'
	@echo 'make model       fetch the model into models/ (98 MB, once); MODEL=NAME another'
	@echo 'make mpi         what --ranks and mpirun need: installs MPI, builds cutaway-mpi.so'
	@echo 'make models      which there are, with their sizes and what each is for'
	@echo 'make install     PREFIX=/usr/local DESTDIR=; `make uninstall` takes it away again'
	@echo 'make bench       speed of the engine against the limits of this machine'
	@echo 'make bench-peer  the same beside llama.cpp (compiles it first, about 15 minutes)'
	@echo 'make peer-server compiles llama-server, for tests of cutaway attach (about 20 minutes)'
	@echo 'make bench-exactness  what the fixed order costs: by turns with a build that is free of it'
	@echo 'make claims      what texts on inference claim, measured: writes docs/claims.md (half an hour)'
	@echo 'make family      small models on the same text, one a kind of mixer: docs/family.md (hours)'
	@echo 'make cuda        the kernels for NVIDIA GPUs (needs nvcc, and minutes)'
	@echo 'make test-gpu    on a machine with a GPU: tests, certificate, sanitizers and figures there'
	@echo 'make lint        who includes whom, sizes, form: what `make test` asks of the sources alone'
	@echo 'make asan        the tests of the modules under ASan and UBSan'
	@echo 'make barriers    each barrier of the CUDA kernels left out in turn must be missed'
	@echo 'make fuzz        the fuzz targets, a minute in total'
	@echo 'make screenshot  docs/screen.png anew, from a real session (needs tmux and rsvg-convert)'
	@echo 'make V=1 …       show whole commands'
	@echo 'make clean       remove what was built (the model stays)'

.PHONY: mpi test-all test-kernels cross-tests fuzz-build claims family lint barriers cuda test-gpu free-order free-order-cuda bench-exactness tests-build chat model models test asan fuzz bench bench-peer peer-server screenshot install uninstall clean help
.PRECIOUS: $(BUILD)/%.o
-include $(CUDA_IMAGE:.fatbin=.d)
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
