/* Products by pairs (tiles.h): each weight that is kept picks its activation from the four that its
 * place counts in. Included by matmul_body.h after load_floats(); v_fours(p) has the four floats at
 * p in each 128 bits, and v_pick(x, place) takes in each lane one of the four of its own 128 bits,
 * by the low two bits of `place`. Thread: any; no state. */

/* Block b of n_tiles tiles times n rows. What is left out would add 0 times a number: rule 6. */
INLINE void add_pairs(const struct k_tile_call *c, enum k_type type, int n_tiles, int n,
	const uint8_t *w, int32_t b, VEC seg[K_TILE_GROUP][MAX_ROWS])
{
	const size_t column = LANES * (type == K_F32 ? 4 : 2), places = LANES * 4;
	const float *x = c->x + b * K_QBLOCK;
	VECI at[K_TILE_GROUP];

	w += (size_t)b * (places + K_QBLOCK / 2 * column);
	for (int t = 0; t < n_tiles; t++)
		at[t] = load(w + (size_t)t * c->tile_bytes);
	for (int j = 0; j < K_QBLOCK / 2; j++) {
		VEC v[K_TILE_GROUP];

		for (int t = 0; t < n_tiles; t++)
			v[t] = load_floats(type, w + (size_t)t * c->tile_bytes + places + (size_t)j * column);
		for (int r = 0; r < n; r++) {
			const VEC four = v_fours(x + (size_t)r * (size_t)c->dim + j / 2 * 4);

			for (int t = 0; t < n_tiles; t++)
				seg[t][r] = V(fmadd_ps)(v[t], v_pick(four, at[t]), seg[t][r]);
		}
		for (int t = 0; t < n_tiles; t++)
			at[t] = move(at[t], 2, 0);
	}
}
