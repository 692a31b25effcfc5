/* Attention of short sequences, and its backward pass, in one kernel each: a group computes one
   head of one image, whose rows lie in shared memory as a whole.  A warp computes 16 rows of the
   scores and keeps them in registers, so that nothing of size T x T, and no partial sum, leaves the
   group.  Products are tiles of 16 x 16 (kernel.h); rows and columns are padded with 0.  Every sum
   has a fixed order.

   The sums of dout out, which the backward pass needs, are computed as those of the weights times
   their cotangents, so that `out` is not read. */
#include <inttypes.h>

#include "model/backends/kernels/text.h"
#include "model/backends/kernels/tile.h"
#include "model/ops/lax.h"
#include "model/ops/operands.h"

enum { ROWS_MAX = 80, HEAD_MAX = 64 };

typedef struct attend {
  mr_attention_sizes_t s;
  bool backward, f16;
  int tiles, head; /* tiles along T, and along D */
  int pitch, wide; /* words from row to row, of an operand and of the weights */
  int in;          /* operands that hold q, k and v */
} attend_t;

static bool attend_of(const mr_eqn_t *e, attend_t *a) {
  if (!mr__is_attention(e)) return false;
  mr_dtype_t t = e->in[0]->aval.dtype;
  mr_attention_sizes_t s = mr__attention_sizes(e);
  if ((t != MR_BF16 && t != MR_F16) || s.T < 1 || s.T > ROWS_MAX || s.D < 8 || s.D > HEAD_MAX ||
      s.D % 8 || s.B < 1 || s.H < 1 || s.B > INT32_MAX / s.H)
    return false;
  *a = (attend_t){.s = s, .backward = s.backward, .f16 = t == MR_F16};
  a->tiles = (int)(s.T + 15) / 16, a->head = (int)(s.D + 15) / 16;
  a->pitch = mr__tile_pitch(16 * a->head), a->wide = mr__tile_pitch(16 * a->tiles);
  a->in = s.packed ? 1 : 3;
  return true;
}

/* Three operands and the weights share the memory of a group; the weights take the place of what is
   no longer read: q and k, and backward that of v. */
static size_t attend_words(const attend_t *a) {
  int own = a->backward ? 3 : 1, freed = (a->backward ? 1 : 2) * a->pitch;
  return (size_t)(16 * a->tiles) * (size_t)(own * a->pitch + (freed > a->wide ? freed : a->wide));
}

bool mr_kernels_attend(const mr_eqn_t *e, size_t shared) {
  attend_t a;
  return attend_of(e, &a) && attend_words(&a) * sizeof(uint32_t) <= shared;
}

/* ---- parts of the texts ---- */

/* clang-format off */

/* Sets c[n] to the sums over k of a tile `a`, of k, and a tile `b`, of k and n. */
#define PRODUCT(c, count, terms, a, b)                                                          \
  "  UNROLL for (int n = 0; n < " count "; n++)\n"                                              \
  "    UNROLL for (int j = 0; j < 8; j++) " c "[n][j] = 0;\n"                                   \
  "  UNROLL for (int k = 0; k < " terms "; k++) {\n"                                            \
  "    tile left = " a ";\n"                                                                    \
  "    UNROLL for (int n = 0; n < " count "; n++) tile_mma(" c "[n], left, " b ", lane, F16);\n" \
  "  }\n"

/* The warp's rows of x times all rows of y: (16, D) (D, T). */
#define SCORES(c, x, y)                                                   \
  PRODUCT(c, "TILES", "HEAD", "tile_a(" x " + own * P + 8 * k, P, lane)", \
          "tile_b_turned(" y " + 16 * n * P + 8 * k, P, lane)")

/* The warp's rows of w, or of its transpose, times x: (16, T) (T, D). */
#define MIX(c, x)                                                       \
  PRODUCT(c, "HEAD", "TILES", "tile_a(w + own * PW + 8 * k, PW, lane)", \
          "tile_b(" x " + 16 * k * P + 8 * n, P, lane)")
#define MIX_TURNED(c, x)                                                            \
  PRODUCT(c, "HEAD", "TILES", "tile_a_turned(w + 16 * k * PW + own / 2, PW, lane)", \
          "tile_b(" x " + 16 * k * P + 8 * n, P, lane)")

/* Writes the warp's rows of s, rounded, to the weights' place. */
#define KEEP(s)                                                                      \
  "  UNROLL for (int n = 0; n < TILES; n++) UNROLL for (int j = 0; j < 8; j += 2)\n" \
  "    w[(own + tile_row(lane, j)) * PW + 8 * n + tile_col(lane, j) / 2] =\n"        \
  "        tile_pair(" s "[n][j], " s "[n][j + 1], F16);\n"

/* Writes the warp's rows of c times `by` to rows of D values, `step` values apart, of `to`. */
#define STORE(c, by, to, step)                                                          \
  "  UNROLL for (int n = 0; n < HEAD; n++) UNROLL for (int j = 0; j < 8; j += 2) {\n"   \
  "    int row = own + tile_row(lane, j), col = 16 * n + tile_col(lane, j);\n"          \
  "    if (row < T && col < D)\n"                                                       \
  "      ((SPACE u32 *)(" to " + row * (i64)" step "))[col / 2] =\n"                    \
  "          tile_pair(" c "[n][j]" by ", " c "[n][j + 1]" by ", F16);\n"               \
  "  }\n"

/* Four items hold a row, and an item holds rows tile_row(lane, 0) and tile_row(lane, 2).  Sets
   to[0,2) to the fold of all four items' values, which are left behind the rows of x. */
#define FOLD(to, x, of, with)                                                                \
  "  UNROLL for (int h = 0; h < 2; h++)\n"                                                   \
  "    " x "[(own + tile_row(lane, 2 * h)) * P + 8 * HEAD + lane % 4] = AS_U32(" of ");\n"   \
  "  WARP_BARRIER;\n"                                                                        \
  "  UNROLL for (int h = 0; h < 2; h++) {\n"                                                 \
  "    SHARED const u32 *f = " x " + (own + tile_row(lane, 2 * h)) * P + 8 * HEAD;\n"        \
  "    float f0 = AS_F32(f[0]), f1 = AS_F32(f[1]), f2 = AS_F32(f[2]), f3 = AS_F32(f[3]);\n"  \
  "    " to "[h] = " with ";\n"                                                              \
  "  }\n"
#define LARGEST "fmax(fmax(f0, f1), fmax(f2, f3))"
#define TOTAL "f0 + f1 + (f2 + f3)"

/* Each element of s: its half h of the item's two rows, and its column. */
#define EACH                                                                        \
  "  UNROLL for (int n = 0; n < TILES; n++) UNROLL for (int j = 0; j < 8; j++) {\n" \
  "    int h = j / 2 % 2, col = 16 * n + tile_col(lane, j);\n"

#define FILL(to, from, step)                                                                   \
  "  tile_fill((SHARED uint4 *)" to ", 16 * TILES, 2 * HEAD, " from ", T, D / 8, " step ",\n" \
  "            LANE, 32 * TILES);\n"

/* ---- the kernels ---- */

/* q and k are read until the scores are known; the weights then take their place. */
static const char forward[] =
    "  SHARED u32 *v = (SHARED u32 *)mem, *q = v + 16 * TILES * P, *k0 = q + 16 * TILES * P;\n"
    "  SHARED u32 *w = q;\n"
    FILL("q", "from0", "STEP")
    FILL("k0", "from1", "STEP")
    FILL("v", "from2", "STEP")
    "  BARRIER;\n"
    "  float s[TILES][8], o[HEAD][8], part[2], top[2], sum[2];\n"
    SCORES("s", "q", "k0")
    "  part[0] = part[1] = -INFINITY;\n"
    EACH
    "    s[n][j] *= scale;\n"
    "    if (col < T) part[h] = fmax(part[h], s[n][j]);\n"
    "  }\n"
    FOLD("top", "q", "part[h]", LARGEST)
    "  part[0] = part[1] = 0;\n"
    EACH
    "    s[n][j] = col < T ? exp2((s[n][j] - top[h]) * LOG2E) : 0.0f;\n"
    "    part[h] += s[n][j];\n"
    "  }\n"
    FOLD("sum", "k0", "part[h]", TOTAL)
    "  BARRIER;\n"
    KEEP("s")
    "  WARP_BARRIER;\n"
    MIX("o", "v")
    "  part[0] = 1.0f / sum[0]; part[1] = 1.0f / sum[1];\n"
    STORE("o", " * part[j / 2 % 2]", "y0 + out", "H * D")
    "  UNROLL for (int h = 0; h < 2; h++) {\n"
    "    int row = own + tile_row(lane, 2 * h);\n"
    "    if (lane % 4 == 0 && row < T) y1[(i64)GROUP * T + row] = top[h] + log(sum[h]);\n"
    "  }\n";

/* v is read until the cotangents of the weights are known; the weights take its place, then the
   cotangents of the scores. */
static const char backward[] =
    "  SHARED u32 *q = (SHARED u32 *)mem, *k0 = q + 16 * TILES * P, *g = k0 + 16 * TILES * P;\n"
    "  SHARED u32 *v = g + 16 * TILES * P, *w = v;\n"
    FILL("q", "from0", "STEP")
    FILL("k0", "from1", "STEP")
    FILL("v", "from2", "STEP")
    FILL("g", "dout + out", "H * D")
    "  BARRIER;\n"
    "  float s[TILES][8], d[TILES][8], o[HEAD][8], part[2], delta[2], lse[2];\n"
    "  UNROLL for (int h = 0; h < 2; h++) {\n"
    "    int row = own + tile_row(lane, 2 * h);\n"
    "    lse[h] = row < T ? stats[(i64)GROUP * T + row] : 0.0f;\n"
    "    part[h] = 0;\n"
    "  }\n"
    SCORES("s", "q", "k0")
    SCORES("d", "g", "v")
    EACH
    "    bool in = col < T && own + tile_row(lane, j) < T;\n"
    "    s[n][j] = in ? exp2((s[n][j] * scale - lse[h]) * LOG2E) : 0.0f;\n"
    "    if (in) part[h] += s[n][j] * d[n][j];\n"
    "  }\n"
    FOLD("delta", "q", "part[h]", TOTAL)
    EACH
    "    d[n][j] = col < T ? s[n][j] * (d[n][j] - delta[h]) * scale : 0.0f;\n"
    "  }\n"
    "  BARRIER;\n"
    KEEP("s")
    "  BARRIER;\n"
    MIX_TURNED("o", "g")
    STORE("o", "", "to2", "STEP")
    "  BARRIER;\n"
    KEEP("d")
    "  BARRIER;\n"
    MIX("o", "k0")
    STORE("o", "", "to0", "STEP")
    MIX_TURNED("o", "q")
    STORE("o", "", "to1", "STEP");

/* clang-format on */

/* Sizes, the group's place, and pointers to q, k and v, and to their gradients. */
static void write_names(FILE *f, const mr_eqn_t *e, const attend_t *a) {
  const mr_attention_sizes_t *s = &a->s;
  int64_t all = s->H * s->D, step = s->packed ? 3 * all : all;
  fprintf(f,
          "  enum { T = %" PRId64 ", H = %" PRId64 ", D = %" PRId64
          ", TILES = %d, HEAD = %d, P = %d, PW = %d, STEP = %" PRId64 ", F16 = %d };\n",
          s->T, s->H, s->D, a->tiles, a->head, a->pitch, a->wide, step, a->f16);
  fprintf(f, "  LOCAL(uint4, mem, %zu);\n", attend_words(a) / 4);
  fprintf(f, "  const float scale = %af, LOG2E = 1.44269504f;\n",
          (double)(float)mr_attr_get(e, "scale")->f);
  fputs(
      "  int lane = LANE % 32, own = LANE / 32 * 16;\n"
      "  i64 image = GROUP / H, head = GROUP % H;\n"
      "  i64 at = image * T * STEP + head * D, out = image * T * H * D + head * D;\n",
      f);
  for (int i = 0; i < 3; i++) {
    int of = s->packed ? 0 : i;
    int64_t by = s->packed ? i * all : 0;
    fprintf(f, "  SPACE const u16 *from%d = x%d + at + %" PRId64 ";\n", i, of, by);
    if (a->backward) fprintf(f, "  SPACE u16 *to%d = y%d + at + %" PRId64 ";\n", i, of, by);
  }
  if (a->backward)
    fprintf(f, "  SPACE const float *stats = x%d; SPACE const u16 *dout = x%d;\n", a->in + 1,
            a->in + 2);
}

mr_err_t mr__kernel_attention(mr_kernel_text_t *t, mr_diag_t *diag) {
  attend_t a;
  if (!attend_of(t->e, &a)) return mr__kernel_refuse(t->e, t->e->in[0]->aval.dtype, diag);
  MR_TRY(mr__kernel_begin_groups(t, a.s.B * a.s.H, 32 * a.tiles, diag));
  mr__kernel_form(t, "one group a head");
  t->out->kernel[0].shared = attend_words(&a) * sizeof(uint32_t);
  write_names(t->f, t->e, &a);
  fputs(a.backward ? backward : forward, t->f);
  return mr__kernel_end(t, diag);
}
