# cutaway: see README.md. `make help` lists the targets.
CC ?= gcc
CFLAGS ?= -O2 -g
BUILD ?= build

ALL_CFLAGS = -std=c11 -D_GNU_SOURCE -I. -ffp-contract=off -fno-math-errno -Wall -Wextra -Wshadow \
	-Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -pthread $(CFLAGS) $(EXTRA_CFLAGS)
LDLIBS = -lncursesw -ltinfo -lreadline -lsqlite3 -lutf8proc -lcjson -lnettle -lm -pthread

# Every .c in these folders belongs to the program; cli/main.c alone has main().
SOURCES := $(filter-out cli/main.c, $(wildcard base/*.c kernels/*.c engine/*.c engine/*/*.c trace/*.c \
	sessions/*.c tui/*.c cli/*.c))
OBJECTS := $(SOURCES:%.c=$(BUILD)/%.o)

cutaway: $(BUILD)/cli/main.o $(BUILD)/libcutaway.a
	$(CC) $(ALL_CFLAGS) -o $@ $^ $(LDLIBS)

$(BUILD)/libcutaway.a: $(OBJECTS)
	rm -f $@ && ar rcs $@ $^

# Kernels of one instruction set each are compiled for it; which one runs is chosen at run time.
$(BUILD)/kernels/%_avx2.o: ISA = -mavx2 -mfma -mf16c -O3
$(BUILD)/kernels/%_avx512.o: ISA = -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c -O3

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(ISA) -MMD -MP -c -o $@ $<

# C tests: tests/test_x.c is one program that speaks TAP (cmocka with CMOCKA_MESSAGE_OUTPUT=TAP).
$(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/libcutaway.a
	$(CC) $(ALL_CFLAGS) -o $@ $^ -lcmocka $(LDLIBS)

clean:
	rm -rf $(BUILD) cutaway

.PHONY: clean
.PRECIOUS: $(BUILD)/%.o
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
