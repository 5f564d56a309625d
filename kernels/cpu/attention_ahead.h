/* Where the groups of a span are, and those of the span that is read next, which are fetched
 * meanwhile. Part of attention_body.h. Thread: as there. */

/* Finds the groups of a span of an item, within its hull, that some row reads. A span is either
 * before coded_end or not: that is a multiple of spans. */
static void find_groups(
	const struct attend_plan *p, const struct attend_item *item, int32_t span, struct groups *out)
{
	const struct k_attention *a = p->a;
	const bool recent = a->recent && span * K_SPAN >= item->coded_end;
	const struct k_kv *kv = recent ? a->recent : a->kv;
	const int32_t *pages = (recent ? a->recent_pages : a->pages)[a->rows[item->row].seq];
	const size_t k_bytes = k_kv_group_bytes(kv, 0), v_bytes = k_kv_group_bytes(kv, 1);
	const unsigned char *keys = k_kv_at(kv, 0, a->layer, 0, item->kv_head); /* of the first page */
	const unsigned char *values = k_kv_at(kv, 0, a->layer, 1, item->kv_head);
	int32_t block = span * K_SPAN / kv->page_size, at = -1;
	int32_t in = span * K_SPAN % kv->page_size / K_GROUP; /* group of the page */
	const unsigned char *key = NULL, *value = NULL;       /* of the page of block `at` */
	uint32_t selected = 0;

	out->kv = kv;
	for (int32_t r = item->row; r < item->row + item->n_rows; r++)
		selected |= k_selected(a, r, item->kv_head, span);
	for (int32_t g = 0; g < K_SPAN_GROUPS; g++) {
		const int32_t pos = span * K_SPAN + g * K_GROUP;
		const bool met = selected >> g & 1 && k_hull_meets(&item->seen, pos, pos + K_GROUP);

		if (met && at != block) {
			at = block;
			key = pages[at] < 0 ? NULL : keys + (size_t)pages[at] * kv->page_bytes;
			value = pages[at] < 0 ? NULL : values + (size_t)pages[at] * kv->page_bytes;
		}
		out->key[g] = met && key ? key + (size_t)in * k_bytes : NULL;
		out->value[g] = met && value ? value + (size_t)in * v_bytes : NULL;
		in = (in + 1) % (kv->page_size / K_GROUP);
		block += !in;
	}
}

/* Finds the groups that are read after unit `unit` of the piece: those of its next unit, or of the
 * first one of the thread's next item. */
static void plan_ahead(struct work *w, struct attend_piece piece, int32_t unit)
{
	const struct attend_plan *p = w->plan;
	struct attend_item item = *w->item;

	w->ahead = true;
	if (unit + 1 < piece.hi)
		find_groups(p, &item, attend_span(&item, unit + 1), &w->next);
	else if (unit + 1 == item.n_spans && attend_next(p, &item) &&
			 attend_piece_of(p, &item, piece.tid).hi > 0)
		find_groups(p, &item, attend_span(&item, 0), &w->next);
	else
		w->ahead = false;
}

static void fetch(const unsigned char *data, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += 64)
		__builtin_prefetch(data + at, 0, MIX_HINT);
}

/* Deals the groups of keys that are read next out to those that are read now: a choice of keys has
 * others of each span, and more or fewer. */
static void deal_ahead(struct work *w)
{
	int32_t g = 0;

	memset(w->fetched, 0, sizeof w->fetched);
	for (int32_t next = 0; w->ahead && next < K_SPAN_GROUPS; next++) {
		if (!w->next.key[next])
			continue;
		while (g < K_SPAN_GROUPS && !w->here.key[g])
			g++;
		if (g < K_SPAN_GROUPS)
			w->fetched[g++] = w->next.key[next];
		else
			fetch(w->next.key[next], k_kv_group_bytes(w->next.kv, 0));
	}
}
