/* See arena.h. */
#include "engine/model/arena.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static LIST_HEAD(, arena) arenas = LIST_HEAD_INITIALIZER(arenas);
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_same(const struct arena_key *a, const struct arena_key *b)
{
	const struct file_stamp *s = &a->stamp, *t = &b->stamp;

	return a->bytes == b->bytes && !strcmp(a->layout, b->layout) && s->size == t->size &&
		   s->mtime_ns == t->mtime_ns && s->ctime_ns == t->ctime_ns && s->inode == t->inode &&
		   s->device == t->device;
}

struct arena *arena_find(const struct arena_key *key)
{
	struct arena *a;

	pthread_mutex_lock(&lock);
	LIST_FOREACH(a, &arenas, link)
	{
		if (is_same(&a->key, key)) {
			a->refs++;
			break;
		}
	}
	pthread_mutex_unlock(&lock);
	return a;
}

struct arena *arena_keep(const struct arena_key *key, uint8_t *data, uint64_t plan)
{
	struct arena *a = calloc(1, sizeof *a);

	if (!a)
		return NULL;
	*a = (struct arena){ .key = *key, .data = data, .plan = plan, .refs = 1 };
	mprotect(data, key->bytes, PROT_READ); /* a stray write ends the program, not others' answers */
	pthread_mutex_lock(&lock);
	LIST_INSERT_HEAD(&arenas, a, link);
	pthread_mutex_unlock(&lock);
	return a;
}

void arena_drop(struct arena *a)
{
	bool last;

	if (!a)
		return;
	pthread_mutex_lock(&lock);
	last = !--a->refs;
	if (last)
		LIST_REMOVE(a, link);
	pthread_mutex_unlock(&lock);
	if (!last)
		return;
	munmap(a->data, a->key.bytes);
	free(a);
}
