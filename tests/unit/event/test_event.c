/* The event table: its run-time form, and the serial form of events. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/support/random_event.h"

enum { CAP = 200, PACKED = 24 + RANDOM_FIELDS * (8 + CAP) };

static unsigned char bytes[RANDOM_FIELDS * CAP], packed[PACKED];

static const size_t struct_size[] = {
#define EVENT(name, doc) sizeof(struct ev_##name),
#include "event/events.def"
};

static void test_table(void **state)
{
	(void)state;
	for (int k = 0; k < EV_N_KINDS; k++) {
		const struct ev_info *info = &ev_info[k];
		size_t size = 0;

		assert_true(*info->name && *info->doc);
		assert_in_range(info->n_fields, 1, RANDOM_FIELDS);
		for (int i = 0; i < info->n_fields; i++) {
			const struct ev_field *f = &info->fields[i];

			assert_true(*f->name && *f->doc);
			size += ev_field_size(f->type);
			for (int j = 0; j < i; j++)
				assert_string_not_equal(f->name, info->fields[j].name);
		}
		assert_int_equal(size, struct_size[(enum ev_kind)k]); /* no holes */
		for (int j = 0; j < k; j++)
			assert_string_not_equal(info->name, ev_info[j].name);
	}
}

static int is_unit(const char *unit)
{
	static const char *const units[] = { "", "ns", "bytes", "ops", "nats", "bits", "p", "flag",
		"bytes/s", "ops/s", "tok/s", "x" };

	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (!strcmp(unit, units[i]))
			return 1;
	return 0;
}

/* Every unit is a known one or a code list, and every code list is the unit of something or named
 * in it. */
static void test_units(void **state)
{
	(void)state;
	for (int k = 0; k < EV_N_KINDS; k++)
		for (int i = 0; i < ev_info[k].n_fields; i++) {
			const struct ev_field *f = &ev_info[k].fields[i];

			if (is_unit(f->unit))
				continue;
			assert_int_equal(f->type, EV_TYPE_I);
			assert_string_not_equal(ev_code_name(f->unit, 0), "?");
		}
}

static void test_codes(void **state)
{
	(void)state;
	assert_string_equal(ev_code_name("page_action", EV_PAGE_evict), "evict");
	assert_string_equal(ev_code_name("page_action", EV_N_page_action), "?");
	assert_string_equal(ev_code_name("page_action", -1), "?");
	assert_string_equal(ev_code_name("no_list", 0), "?");
	for (const struct ev_code *c = ev_codes; c->list; c++)
		assert_string_equal(ev_code_name(c->list, c->value), c->name);
}

static void test_init(void **state)
{
	struct event ev;

	(void)state;
	ev_init(&ev, EV_token);
	assert_int_equal(ev.kind, EV_token);
	assert_true(ev.u.token.step == EV_NULL_I && ev.u.token.is_end == EV_NULL_I);
	assert_true(isnan(ev.u.token.p) && isnan(ev.u.token.entropy));
	assert_null(ev.u.token.candidates.data);
}

static void test_pack(void **state)
{
	struct event ev, back;
	int seen[EV_N_KINDS] = { 0 };

	(void)state;
	for (int64_t seq = 1; seq <= 3000; seq++) {
		size_t size;

		random_event(&ev, seq, bytes, CAP);
		size = ev_pack(&ev, packed, sizeof packed);
		assert_in_range(size, 24, sizeof packed);
		assert_int_equal(ev_unpack(&back, packed, size), 0);
		assert_true(event_equal(&ev, &back));
		seen[ev.kind]++;

		/* A buffer that is too small is not touched. */
		unsigned char last = packed[size - 1] ^ 1;
		packed[size - 1] = last;
		assert_int_equal(ev_pack(&ev, packed, size - 1), size);
		assert_int_equal(packed[size - 1], last);
		assert_int_equal(ev_pack(&ev, packed, size), size);

		/* Neither less nor more is a whole event. */
		for (size_t cut = 0; cut < size; cut += 1 + size / 23)
			assert_int_equal(ev_unpack(&back, packed, cut), -1);
		assert_int_equal(ev_unpack(&back, packed, size + 1), -1);
	}
	for (int k = 0; k < EV_N_KINDS; k++)
		assert_true(seen[k] > 10);
}

static void check_spans(const struct event *ev, const unsigned char *buf, size_t size)
{
	const char *member = (const char *)&ev->u;

	for (int i = 0; i < ev_info[ev->kind].n_fields; i++) {
		const struct ev_span *span = (const void *)member;

		if (ev_info[ev->kind].fields[i].type >= EV_TYPE_T && span->data) {
			const unsigned char *p = span->data;

			assert_true(p >= buf && p <= buf + size && span->size <= (size_t)(buf + size - p));
		}
		member += ev_field_size(ev_info[ev->kind].fields[i].type);
	}
}

/* Random and nearly right bytes: refused, or an event whose spans lie inside them. */
static void test_unpack_noise(void **state)
{
	uint64_t random = 5;
	struct event ev;
	int whole = 0;

	(void)state;
	for (int64_t round = 1; round <= 20000; round++) {
		size_t size = random_u64(&random) % 300;
		unsigned char *copy;

		for (size_t i = 0; i < size; i++)
			packed[i] = (unsigned char)random_u64(&random);
		if (round & 1) {
			random_event(&ev, round, bytes, CAP);
			size = ev_pack(&ev, packed, sizeof packed);
			for (int n = 0; n < 3; n++)
				packed[random_u64(&random) % size] = (unsigned char)random_u64(&random);
		}
		copy = malloc(size ? size : 1); /* its own block, so that ASan sees a step outside */
		memcpy(copy, packed, size);
		if (!ev_unpack(&ev, copy, size)) {
			assert_in_range(ev.kind, 0, EV_N_KINDS - 1);
			check_spans(&ev, copy, size);
			whole++;
		}
		free(copy);
	}
	assert_true(whole > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_units),
		cmocka_unit_test(test_codes),
		cmocka_unit_test(test_init),
		cmocka_unit_test(test_pack),
		cmocka_unit_test(test_unpack_noise),
	};

	return cmocka_run_group_tests_name("event", tests, NULL, NULL);
}
