/* What sessions/attach reads of servers' answers: who they are, their metrics and their slots, by
 * the recorded answers in tests/data/attach. The streams are read in tests/program/test_attach.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sessions/attach/attach_impl.h"

static char *file_of(const char *server, const char *name)
{
	char path[160], *text = calloc(1, 1 << 16);
	FILE *f;

	snprintf(path, sizeof path, "tests/data/attach/%s/%s", server, name);
	f = fopen(path, "r");
	assert_non_null(f);
	assert_true(fread(text, 1, (1 << 16) - 1, f) > 0);
	fclose(f);
	return text;
}

static const struct attach_server *met(const char *server)
{
	char owner[ATTACH_WORD], *text = file_of(server, "models.json");
	cJSON *o = cJSON_Parse(text);

	attach_word(cJSON_GetObjectItem(o, "data")->child, "owned_by", owner, sizeof owner);
	cJSON_Delete(o);
	free(text);
	return attach_which(owner, NULL);
}

static struct ev_polled polled(const char *server)
{
	char *text = file_of(server, "metrics.txt");
	struct event ev;

	ev_init(&ev, EV_polled);
	met(server)->poll(&ev.u.polled, text);
	free(text);
	return ev.u.polled;
}

static struct attach_server_info learned(const char *server)
{
	struct attach_server_info told = { .ctx = -7 };
	char *text = file_of(server, "info.json");
	cJSON *o = cJSON_Parse(text);

	met(server)->learn(&told, o);
	cJSON_Delete(o);
	free(text);
	return told;
}

static void a_server_is_known_by_its_name_or_its_metrics(void **state)
{
	(void)state;
	assert_ptr_equal(met("llama-server"), &attach_llama_server);
	assert_ptr_equal(met("vllm"), &attach_vllm);
	assert_ptr_equal(met("sglang"), &attach_sglang);
	assert_ptr_equal(met("openai"), &attach_openai);
	assert_ptr_equal(attach_which("cutaway", NULL), &attach_cutaway);
	assert_ptr_equal(attach_which("me", "# HELP x\nvllm:x 1\n"), &attach_vllm);
	assert_ptr_equal(attach_which("me", "not sglang:x 1\n"), &attach_openai);
}

static void llama_server_tells_its_slots(void **state)
{
	const struct ev_polled p = polled("llama-server");
	const struct attach_server_info t = learned("llama-server");
	char *text = file_of("llama-server", "slots.json");
	cJSON *slots = cJSON_Parse(text);
	struct event ev;

	(void)state;
	assert_int_equal(p.running, 1);
	assert_int_equal(p.waiting, 0);
	assert_int_equal(p.hit, 163);
	assert_int_equal(p.asked, 98 + 163);
	assert_int_equal(p.generated, 110);
	assert_true(isnan(p.kv_used));
	assert_int_equal(p.preempted, EV_NULL_I);
	assert_string_equal(t.version, "b1-0c1e570");
	assert_int_equal(t.slots, 2);
	assert_int_equal(t.ctx, 2048);
	ev_init(&ev, EV_slot);
	attach_llama_server.slot(&ev.u.slot, slots->child);
	assert_int_equal(ev.u.slot.busy, 0);
	assert_int_equal(ev.u.slot.tokens, EV_NULL_I);
	ev_init(&ev, EV_slot);
	attach_llama_server.slot(&ev.u.slot, slots->child->next);
	assert_int_equal(ev.u.slot.slot, 1);
	assert_int_equal(ev.u.slot.busy, 1);
	assert_int_equal(ev.u.slot.task, 632);
	assert_int_equal(ev.u.slot.ctx, 2048);
	assert_int_equal(ev.u.slot.tokens, 36);
	assert_int_equal(ev.u.slot.generated, 1);
	cJSON_Delete(slots);
	free(text);
}

/* Two engines: counts add, of shares the larger is told. */
static void vllm_tells_its_pool(void **state)
{
	const struct ev_polled p = polled("vllm");
	struct attach_server_info t = learned("vllm");
	char *text = file_of("vllm", "metrics.txt");

	(void)state;
	assert_int_equal(p.running, 3);
	assert_int_equal(p.waiting, 4);
	assert_true(p.kv_used > 0.3749 && p.kv_used < 0.3751);
	assert_int_equal(p.generated, 1750);
	assert_int_equal(p.asked, 1000);
	assert_int_equal(p.hit, 656);
	assert_int_equal(p.preempted, 3);
	assert_int_equal(p.kv_tokens, EV_NULL_I);
	assert_string_equal(t.version, "0.11.0");
	attach_vllm.learn_metrics(&t, text);
	assert_int_equal(t.pages, 4096);
	assert_int_equal(t.page_size, 16);
	free(text);
}

/* Two ranks of one engine tell the same; priorities are parts of what the first series has. */
static void sglang_is_not_counted_twice(void **state)
{
	const struct ev_polled p = polled("sglang");
	const struct attach_server_info t = learned("sglang");

	(void)state;
	assert_int_equal(p.running, 3);
	assert_int_equal(p.waiting, 2);
	assert_int_equal(p.kv_tokens, 290160);
	assert_int_equal(p.hit, 1024);
	assert_int_equal(p.asked, EV_NULL_I);
	assert_string_equal(t.version, "0.5.10");
	assert_int_equal(t.slots, EV_NULL_I);
	assert_int_equal(t.pages, 1036288);
}

static void what_makes_no_sense_is_not_told(void **state)
{
	cJSON *o = cJSON_Parse("{\"a\": -1, \"b\": 1.5, \"c\": \"3\", \"d\": 1e300, \"e\": 7}");

	(void)state;
	assert_int_equal(attach_int(o, "a"), EV_NULL_I);
	assert_int_equal(attach_int(o, "b"), EV_NULL_I);
	assert_int_equal(attach_int(o, "c"), EV_NULL_I);
	assert_int_equal(attach_int(o, "d"), EV_NULL_I);
	assert_int_equal(attach_int(o, "e"), 7);
	assert_int_equal(attach_int(NULL, "e"), EV_NULL_I);
	assert_int_equal(attach_count("x -3\n", "x"), EV_NULL_I);
	assert_int_equal(attach_count("x NaN\n", "x"), EV_NULL_I);
	assert_int_equal(attach_count("xy 3\n", "x"), EV_NULL_I);
	assert_int_equal(attach_count("x{a=\"b\" 3\n", "x"), EV_NULL_I);
	assert_int_equal(attach_count("x{a=\"b\"} 3 1790000000\nx 4", "x"), 7);
	assert_int_equal(attach_label("x{n=\"12\"} 1\n", "x", "n"), 12);
	assert_int_equal(attach_label("x{n=\"none\"} 1\n", "x", "m"), EV_NULL_I);
	cJSON_Delete(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_server_is_known_by_its_name_or_its_metrics),
		cmocka_unit_test(llama_server_tells_its_slots),
		cmocka_unit_test(vllm_tells_its_pool),
		cmocka_unit_test(sglang_is_not_counted_twice),
		cmocka_unit_test(what_makes_no_sense_is_not_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
