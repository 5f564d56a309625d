/* The list of ops. Those of K_PLAIN_KINDS run their definition (op/<name>.h) on every back end; the
 * others have kernels of their own, for an instruction set or a GPU, that are compared with the
 * reference by memcmp. */
#pragma once

#include "kernels/op/activate.h"
#include "kernels/op/adapter.h"
#include "kernels/op/add.h"
#include "kernels/op/bonus.h"
#include "kernels/op/cap.h"
#include "kernels/op/centre.h"
#include "kernels/op/columns.h"
#include "kernels/op/combine.h"
#include "kernels/op/conv.h"
#include "kernels/op/encode.h"
#include "kernels/op/erase.h"
#include "kernels/op/gated.h"
#include "kernels/op/glu.h"
#include "kernels/op/heavy.h"
#include "kernels/op/linear.h"
#include "kernels/op/pick.h"
#include "kernels/op/place.h"
#include "kernels/op/rates.h"
#include "kernels/op/rotary.h"
#include "kernels/op/round.h"
#include "kernels/op/route.h"
#include "kernels/op/scan.h"
#include "kernels/op/shift.h"
#include "kernels/op/slice.h"
#include "kernels/op/sparse.h"
#include "kernels/op/taylor.h"
#include "kernels/op/wkv.h"

/* Those of K_PLAIN_FAST have kernels for instruction sets as well. */
#define K_PLAIN_FAST(X)                                                                            \
	X(sparse)                                                                                      \
	X(columns)                                                                                     \
	X(pick)

/* Of the others on a GPU: a warp has a unit. */
#define K_WARP_KINDS(X)                                                                            \
	X(combine)                                                                                     \
	X(slice)                                                                                       \
	X(conv)                                                                                        \
	X(scan)                                                                                        \
	X(rates)                                                                                       \
	X(linear)                                                                                      \
	X(activate)                                                                                    \
	X(place)                                                                                       \
	X(rotary)                                                                                      \
	X(add)                                                                                         \
	X(cap)                                                                                         \
	X(shift)                                                                                       \
	X(erase)                                                                                       \
	X(wkv)                                                                                         \
	X(bonus)                                                                                       \
	X(taylor)                                                                                      \
	X(shrink)                                                                                      \
	X(expand)                                                                                      \
	X(key_range)                                                                                   \
	X(turn)

/* And here a block. */
#define K_BLOCK_KINDS(X)                                                                           \
	X(round)                                                                                       \
	X(route)                                                                                       \
	X(gated)                                                                                       \
	X(centre)                                                                                      \
	X(encode)                                                                                      \
	X(h2o_lookup)                                                                                  \
	X(attn_score)

#define K_PLAIN_ALONE(X) K_WARP_KINDS(X) K_BLOCK_KINDS(X)

#define K_PLAIN_KINDS(X) K_PLAIN_FAST(X) K_PLAIN_ALONE(X)

#define K_KINDS(X)                                                                                 \
	X(embed)                                                                                       \
	X(norm)                                                                                        \
	X(matmul)                                                                                      \
	X(rope)                                                                                        \
	X(attention)                                                                                   \
	X(glu)                                                                                         \
	X(stats)                                                                                       \
	X(experts)                                                                                     \
	K_PLAIN_KINDS(X)

/* Those that on a GPU have one kernel; products have one for each format of weights. K_SINGLES:
 * with an argument of one kind. */
#define K_SINGLES(X)                                                                               \
	X(embed)                                                                                       \
	X(norm)                                                                                        \
	X(rope)                                                                                        \
	X(glu)                                                                                         \
	X(stats)                                                                                       \
	K_PLAIN_KINDS(X)
#define K_NO_PRODUCTS(X) K_SINGLES(X) X(attention)

/* Those that read block tables, by K_TABLES_<name>. */
#define K_PAGED_KINDS(X)                                                                           \
	X(rope)                                                                                        \
	X(attention)                                                                                   \
	X(key_range)                                                                                   \
	X(pick)                                                                                        \
	X(encode)
