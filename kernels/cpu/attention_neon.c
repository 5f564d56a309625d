/* Attention, NEON: the register tiles; all else is in attention_body.h, with its vectors of 8.
 * Thread: called by all threads of a pool; no state. */
#include "kernels/cpu/vec8.h"
#include "kernels/format/codes.h"

#define VEC float32x4_t
#define LANES 4
#define vec_set1 vdupq_n_f32
#define vec_load vld1q_f32
#define vec_store vst1q_f32
#define vec_f32 vld1q_f32

static inline float32x4_t vec_fma(float32x4_t a, float32x4_t b, float32x4_t c)
{
	return vfmaq_f32(c, a, b);
}

static inline float32x4_t vec_f16(const uint16_t *h)
{
	return vcvt_f32_f16((float16x4_t)vld1_u16(h));
}

static inline float32x4_t vec_bf16(const uint16_t *h)
{
	return (float32x4_t)vshll_n_u16(vld1_u16(h), 16);
}

/* Four bytes, in 16 bits each. */
static inline uint16x4_t wide_four(const void *b)
{
	uint32_t bytes;

	memcpy(&bytes, b, sizeof bytes);
	return vget_low_u16(vmovl_u8(vcreate_u8(bytes)));
}

static inline float32x4_t vec_e4m3(const uint8_t *b)
{
	const uint16x4_t wide = wide_four(b);

	return vcvt_f32_f16((float16x4_t)((wide & 0x80) << 8 | (wide & 0x7f) << 7)) * 256;
}

static inline float32x4_t vec_q8(const int8_t *b)
{
	return vcvtq_f32_s32(vmovl_s16((int16x4_t)(wide_four(b) << 8) >> 8));
}

#define VEC_INT int32x4_t
#define vec_set1_int vdupq_n_s32
#define CODE_QUERIES 3                    /* for so many 16 tokens' sums stay in registers */
#define CODE_WIDTH(nq) ((nq) < 3 ? 2 : 1) /* times 16 lanes of a tile, at most */
#define vec_total vaddq_s32

static inline int32x4_t vec_zero(void)
{
	return vdupq_n_s32(0);
}

static inline int32x4_t vec_int_load(const unsigned char *at)
{
	return (int32x4_t)vld1q_u8(at);
}

static inline int32x4_t vec_codes(int32x4_t words, int j, int bits)
{
	return (int32x4_t)((uint8x16_t)words >> j * bits & (uint8_t)((1 << bits) - 1));
}

static inline int32x4_t vec_dot(int32x4_t sum, int32x4_t codes, int32x4_t q)
{
	return vdotq_s32(sum, (int8x16_t)codes, (int8x16_t)q);
}

static inline float32x4_t vec_code_sum(const struct k_code_factor *f, int32x4_t sum)
{
	return vfmaq_n_f32(vdupq_n_f32(f->middles), vcvtq_f32_s32(sum - f->sum), f->step);
}

#define MIX_UNROLL _Pragma("GCC unroll 16")
#define ATTENTION k_neon_attention
/* gcc 12 does not see that values which are part of the keys have no codes (load_lanes). */
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include "kernels/cpu/attention_body.h"
