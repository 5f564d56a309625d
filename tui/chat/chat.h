/* What the files of the chat share. Internal to tui/. Thread: the UI's. */
#pragma once

#include <unistd.h>

#include "sessions/compare/compare.h"
#include "sessions/lesson/lesson.h"
#include "sessions/price/apart.h"
#include "sessions/score/score_command.h"
#include "tui/app/player.h"
#include "tui/app/script.h"
#include "tui/chat/live.h"
#include "tui/replay/travel.h"

/* The settings as they stood when a lesson began: they are put back when it ends. Texts (system,
 * stop, user) are the reader's own and stay. */
struct chat_kept {
	bool on;
	char *engine[N_ENGINE_SETTINGS]; /* NULL: not kept */
	struct answer_settings answer;
	char search[64];
};

void chat_kept_take(struct chat_kept *k, struct app *a);
/* Puts back what differs, says it on one line, and forgets. */
void chat_kept_put_back(struct chat_kept *k, struct app *a);
void chat_kept_free(struct chat_kept *k);

/* The lesson that the chat runs: where the reader stands, and what is typed for them. */
struct chat_lesson {
	struct lesson *l; /* NULL: none */
	char name[64];
	int32_t part;    /* where the reader stands; l->n: at the end */
	int64_t shown;   /* where the reader stood when the text was last placed */
	int64_t left_ns; /* for the queries of this stop */
	int32_t skips;   /* the question, plus 1, that one more empty line leaves out */
	struct chat_kept kept;
	int64_t before;      /* the request that the conversation ended with before it; 0: none */
	const char *next;    /* the next line to type; NULL: none is typed now */
	int64_t reported_ns; /* time of the newest error that was seen while lines were typed */
};

/* /lesson NAME: begins it. "": lists them; "off": closes it. */
int chat_lesson(struct app *a, const char *name, struct err *e);
/* Takes a line that is the lesson's: an empty one goes on, and one that answers a question. */
bool chat_lesson_line(struct app *a, const char *line);
/* After every wait: types the next line, and asks the log when all of it was answered. */
void chat_lesson_work(struct app *a);
/* Lines are being typed: the loop must look again soon. */
bool chat_lesson_busy(const struct app *a);
void chat_lesson_close(struct chat_lesson *k);

/* /price: the text of the request in focus, scored beside the exact twin under all lossy settings,
 * each alone and all but each (sessions/price/apart.h), as score requests of this session; then why
 * price shows what the recording has of them. The settings are as before when it is over, or was
 * stopped. */
struct chat_price {
	bool running, asked, stopping, begun; /* asked: the engine's thread has it */
	struct apart apart;                   /* the engine's thread's, while asked */
	int32_t *ids, n_ids;
	int64_t request;  /* whose text it is */
	int64_t reported; /* case whose end was acted on */
	int64_t looked_ns;
	struct err err;
};

int chat_price(struct app *a, struct err *e); /* begins */

void chat_price_work(struct app *a); /* after every wait */
void chat_price_free(struct chat_price *c);

/* /compare: the last turn, or a prompt, answered under two sets of settings by turns, as background
 * requests of this session; then the table.
 *
 * Each answer is begun on the engine's thread between two steps, when nothing runs: the settings of
 * its side are applied, the prefix cache emptied, the drafter opened anew. After the last one, and
 * after a stop, the settings are those of before. The table comes from the recording, where the
 * comparison is marked (sessions/compare/compare.h). */
enum { CHAT_COMPARE_SETTINGS = 16, CHAT_COMPARE_VALUE = 128 };

struct chat_compare {
	bool running, asked, stopping; /* asked: the engine's thread has it */
	char label[2][COMPARE_LABEL];
	struct {
		const struct setting *s;
		char value[3][CHAT_COMPARE_VALUE]; /* under A, under B, before */
	} set[CHAT_COMPARE_SETTINGS];          /* settings of the engine that a side names */
	int n_set;
	struct answer_settings answer[2];
	char *text;
	int32_t *ids, *scored; /* [n_ids] the prompt; [n_ids + n_scored] and A's answer */
	int32_t n_ids, n_scored;
	int turn;               /* of all answers, then of the two scores */
	int64_t request, first; /* the newest; A's first that counts */
	int64_t looked_ns;
	struct err err;
};

/* "'A' 'B' [PROMPT]": begins. */
int chat_compare(struct app *a, const char *typed, struct err *e);

void chat_compare_work(struct app *a); /* after every wait */
void chat_compare_free(struct chat_compare *c);

/* /search: the answer to a turn is the best of several, found by a search (engine/search/search.h).
 *
 *
 * The method is a setting like /temp: it holds for the turns that follow and for /retry; so is the
 * command that scores (/score), which runs asynchronously: neither engine nor screen waits for it.
 * The answer is an ordinary request of the conversation, whose events the engine emits when the
 * search ends. */
enum { CHAT_SEARCH_METHOD = 64, CHAT_SEARCH_SCORE = 256 };

struct chat_search {
	/* "beam:4", as engine/search/search.h has it; "": plain answers */
	char method[CHAT_SEARCH_METHOD];
	char score[CHAT_SEARCH_SCORE];     /* the command that scores; "": score by log-probability */
	char judged_by[CHAT_SEARCH_SCORE]; /* the same, as of the start of the running search */
	struct score_command scorer;
	int64_t running; /* a search of the engine, 0: none */
	int64_t looked_ns;
	bool asked;                            /* a check of its end is queued on the engine's thread */
	bool quietly;                          /* its end is not reported */
	int32_t trimmed_tokens, trimmed_turns; /* noted when the answer becomes a request */
};

/* What was typed ("beam 4 0.6", "best:8", "off") in the engine's form. -1: too long to be one. */
int chat_search_form(const char *typed, char out[CHAT_SEARCH_METHOD]);
/* "off" or a method that the engine can begin. */
int chat_search_set(struct app *a, const char *typed, struct err *e);
/* "off" or a command for the shell. */
int chat_search_score(struct app *a, const char *typed, struct err *e);
/* Begins a search; the conversation then expects one answer. */
int chat_search_begin(struct app *a, const struct conversation_prompt *p, struct err *e);
/* Ends it: frees all its pages and takes its best answer so far for the turn. False: none runs. */
bool chat_search_stop(struct app *a);
/* The same without waiting: the end is handled later. quietly: then only an error is reported. */
bool chat_search_cancel(struct app *a, bool quietly);
void chat_search_work(struct app *a); /* after every wait */

enum { CHAT_LEFT = 64 };

/* What is said of the next turn, and of which state of the conversation. */
struct chat_ahead {
	int64_t request;
	int32_t size, room;
	bool drops;
	struct view_text words;
};

struct chat {
	const struct tui_options *options;
	struct tui_end *end;
	struct live live;
	struct answer_settings settings, usual; /* usual: where nothing was asked for */
	char *system;                           /* the text of settings.system */
	struct view_waiting waiting;            /* turns not submitted yet */
	struct chat_ahead ahead;
	struct script *script; /* of --commands, until its end */
	bool script_goes_on;   /* there may be another line */
	bool script_paused;    /* its last line left the engine paused */
	char *copy_to;         /* /save FILE.db: where the recording is copied when it is whole */
	struct chat_search search;
	struct chat_compare compare;
	struct chat_price price;
	struct chat_lesson lesson;
	bool lesson_begun; /* that of the command line */
	int next_load;
	int32_t reported_layer, reported_head; /* plus one; what the engine observes */
	bool record_failed, stop_reported;
	bool past_ran;       /* the engine ran when an earlier step was first looked at */
	struct player *past; /* plays the recording so far while an earlier step is shown */
	struct timeline past_timeline;
	struct tl_branch left[CHAT_LEFT]; /* abandoned branches, for /undo; newest last */
	int n_left;
	bool standing; /* rewound and not continued since */
	int64_t began_ns;
	double pace;                          /* steps a second at most; 0: as fast as they come */
	bool loops_run;                       /* an answer that repeats itself is not held */
	int64_t looped;                       /* the request that was held for that; 0: none */
	struct chat_model *model, *model_now; /* being opened; that of /model, which options are of */
};

void chat_ask(struct app *a, const char *text);
/* Cancels answers, and with `all` also the background requests. Returns how many, without
 * waiting. */
int chat_stop(struct app *a, bool all);
/* Cancels answers and waits until they have ended. */
void chat_cancel(struct app *a);
void chat_observe(struct app *a);
bool chat_busy(struct app *a); /* the turn is not answered yet */
struct engine_request chat_request(struct chat *c, enum ev_code_request_kind kind,
	const struct conversation_prompt *p, int64_t sample);
int chat_begin_anew(struct app *a, struct err *e);

/* chat_own.c: settings of the chat alone, loops that are held, the clipboard. */
bool chat_own_is(const char *name);
int chat_own_set(struct app *a, const char *name, const char *value, struct err *e);
void chat_own_get(const struct chat *c, const char *name, char *buf, size_t cap);
void chat_hold_loop(struct app *a);
/* One that is held, and lets the engine go on. False: none is. */
bool chat_end_loop(struct app *a);
int chat_copy(struct app *a, const char *what, struct err *e);

/* chat_status.c: what the end of the context will do. */
int chat_refuses(void *arg, const struct setting *s, const char *value, struct err *e);
void chat_look_ahead(struct app *a);
/* "2 turns left out (310 tokens), 1,204 computed again". */
struct view_text chat_trim_words(const struct app *a, const struct conversation_prompt *p);

/* chat_edit.c: /edit [TURN], /file PATH. */
int chat_edit(struct app *a, const char *turn, struct err *e);
int chat_file(struct app *a, const char *path, struct err *e);
/* What is sent: the files that it names, and what was typed; malloc'd. NULL: one cannot be sent,
 * which is said, and what was typed is in the prompt again, if that is empty. */
char *chat_with_files(struct app *a, const char *typed);

/* chat_continue.c: before the first turn, if options->resumed is given. */
int chat_continue(struct app *a, struct err *e);
/* A turn that was answered elsewhere, with token [n]: as if it ran here. */
int chat_recall(struct chat *c, const struct engine_request *q, const struct ev_token *token,
	int32_t n, enum ev_code_finish reason, struct err *e);

/* chat_model.c: another model, by file or name; chat_model_work() goes on with it. */
int chat_model(struct app *a, const char *what, struct err *e);
void chat_model_work(struct app *a);
bool chat_model_stop(struct app *a); /* false: none is being opened */
void chat_model_end(struct chat *c); /* after the session is closed */

/* chat_past.c: shows an earlier step. The engine is paused meanwhile. */
int chat_past_go(struct app *a, int64_t step, struct err *e);  /* beyond the last: the present */
int chat_past_by(struct app *a, int64_t steps, struct err *e); /* from the step shown */
void chat_past_leave(struct app *a);
void chat_past_return(struct app *a);       /* and the engine runs again if it did before */
bool chat_past_key(struct app *a, int key); /* n N g Home End, with a view in focus */

/* chat_moves.c: the engine goes to an earlier position. */
/* The newest request of the conversation that t has, or NULL. In a server's terminal the timeline
 * has its clients' requests, too, and timeline_chat() would be one of them. */
const struct tl_request *chat_newest(struct app *a, const struct timeline *t);
/* The answer that the next turn follows; 0: it is the only one, or there is none. */
int64_t chat_goes_on_from(struct app *a);
/* The request that the conversation ends with now; 0: none. */
int64_t chat_stands_at(struct app *a);
/* Folds all events that there are. */
void chat_feed(struct app *a);
/* Pauses the engine between two steps, with all its events folded. */
void chat_hold(struct app *a);
/* Keeps one request's tokens, read in `from`, up to .pos, and appends the id `forced` (or -1:
 * none). beside: the other branch continues, too; goes_on: the engine resumes. */
int chat_move(struct app *a, const struct timeline *from, struct tl_branch to, int32_t forced,
	bool beside, bool goes_on, struct err *e);
/* Rewinds all answers that ran at the step that t shows; if none did, only the conversation ends
 * there. */
int chat_move_all(struct app *a, const struct timeline *t, struct err *e);
/* Makes the conversation end after this branch, or a part of it; nothing is computed. */
int chat_stand_at(struct app *a, const struct timeline *from, struct tl_branch b, struct err *e);

/* chat_load.c: background requests, "N [KIND]". */
int chat_load(struct app *a, const char *text, struct err *e);

/* chat_travel.c: going back with the engine. */
int chat_go_on(struct app *a, struct err *e);       /* from the step shown */
int chat_step(struct app *a, int n, struct err *e); /* while an earlier step is shown: moves that */
/* Before a turn is submitted: ends the conversation at the step shown. */
int chat_stand_here(struct app *a, struct err *e);
/* What a command refers to: the branch in focus, at present or at the step shown; the engine is
 * paused. NULL with the error: there is none. */
const struct tl_request *chat_focused(struct app *a, struct err *e);
int chat_rewind(struct app *a, const char *where, struct err *e);
int chat_fork_at(struct app *a, const char *where, struct err *e);
/* chat_pin.c */
int chat_pin(struct app *a, const char *arg, struct err *e);
int chat_unpin(struct app *a, int64_t number, struct err *e);
int chat_try(struct app *a, const char *token, struct err *e);
int chat_undo(struct app *a, struct err *e);
void chat_action(struct app *a, const struct view_action *w);

/* chat_status.c: the ends of the status line. */
void chat_status(struct app *a, struct app_status *s);
struct view_text chat_name(struct app *a);

/* After the session is closed. */
int chat_copy_recording(struct chat *c, struct err *e);

/* For struct command_host; arg is the app. */
int chat_engine_set(void *arg, const char *name, const char *value, struct err *e);
int chat_engine_get(void *arg, const char *name, char *buf, size_t cap);
/* As chat_engine_set(), but only an error is told, when it comes. */
void chat_engine_put_back(struct app *a, const char *name, const char *value);
void chat_note(void *arg, const char *name, const char *value);

int chat_act(void *arg, enum command_act act, const char *text, double number, struct err *e);
