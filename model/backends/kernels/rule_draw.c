/* Random draws from keys, and new keys from old ones: the words of base/random.c, one work-item an
   element.  Keys are operand 0, two words each. */
#include <inttypes.h>
#include <math.h>

#include "model/backends/kernels/text.h"
#include "model/ops/lax.h"
#include "model/ops/operands.h"

static int is_original(const mr_eqn_t *e) {
  const mr_attr_t *p = mr_attr_find(e, "partitionable");
  return p && !p->i[0];
}

/* Begins a kernel for every element of the result: k is its key, j its number of `each` in the
   key's draw. */
static mr_err_t draw_begin(mr_kernel_text_t *t, int64_t *each, mr_diag_t *diag) {
  int64_t n = mr_aval_elems(&t->e->out[0]->aval);
  *each = n / mr__key_count(t->e);
  MR_TRY(mr__kernel_begin(t, n, diag));
  fprintf(t->f, "  u64 o = i / %" PRId64 ", j = i %% %" PRId64 ";\n", *each, *each);
  fputs("  key k = key_of(x0[2 * o], x0[2 * o + 1]);\n", t->f);
  return MR_OK;
}

/* A kernel whose result is `value`, of the element's word `w`. */
static mr_err_t write_draw(mr_kernel_text_t *t, const char *value, mr_diag_t *diag) {
  int64_t each;
  MR_TRY(draw_begin(t, &each, diag));
  fprintf(t->f, "  u32 w = word_of(k, j, %" PRId64 ", %d);\n", each, is_original(t->e));
  mr__kernel_store(t->f, t->e->out[0]->aval.dtype, "y0", "i", value);
  return mr__kernel_end(t, diag);
}

/* A float in a kernel's text. */
static const char *spell_float(float x, char text[40]) {
  if (isinf(x))
    snprintf(text, 40, "%sINFINITY", x < 0 ? "-" : "");
  else
    snprintf(text, 40, "%af", (double)x);
  return text;
}

mr_err_t mr__kernel_random_bits(mr_kernel_text_t *t, mr_diag_t *diag) {
  return write_draw(t, "w", diag);
}

mr_err_t mr__kernel_random_uniform(mr_kernel_text_t *t, mr_diag_t *diag) {
  char value[160], lo[40], hi[40];
  snprintf(value, sizeof value, "uniform_of(w, %s, %s)",
           spell_float((float)mr_attr_get(t->e, "minval")->f, lo),
           spell_float((float)mr_attr_get(t->e, "maxval")->f, hi));
  return write_draw(t, value, diag);
}

mr_err_t mr__kernel_random_normal(mr_kernel_text_t *t, mr_diag_t *diag) {
  char value[120], lo[40];
  snprintf(value, sizeof value, "normal_of(w, %s, 1.0f)", spell_float(nextafterf(-1.0f, 0.0f), lo));
  return write_draw(t, value, diag);
}

mr_err_t mr__kernel_random_truncated_normal(mr_kernel_text_t *t, mr_diag_t *diag) {
  mr_truncated_t cut =
      mr_truncated((float)mr_attr_get(t->e, "lower")->f, (float)mr_attr_get(t->e, "upper")->f);
  char value[240], text[4][40];
  snprintf(value, sizeof value, "fmin(fmax(normal_of(w, %s, %s), %s), %s)",
           spell_float(cut.erf_lo, text[0]), spell_float(cut.erf_hi, text[1]),
           spell_float(cut.least, text[2]), spell_float(cut.most, text[3]));
  return write_draw(t, value, diag);
}

/* Two words an element, of two keys that are split from the one given. */
mr_err_t mr__kernel_random_randint(mr_kernel_text_t *t, mr_diag_t *diag) {
  int32_t lo = (int32_t)mr_attr_get(t->e, "minval")->i[0];
  int32_t hi = (int32_t)mr_attr_get(t->e, "maxval")->i[0];
  uint32_t span = hi <= lo ? 1 : (uint32_t)hi - (uint32_t)lo;
  uint32_t half = 65536u % span, word = half * half % span;
  int64_t each;
  int original = is_original(t->e);
  MR_TRY(draw_begin(t, &each, diag));
  fprintf(t->f, "  u32 high = word_of(split_at(k, 0, 2, %d), j, %" PRId64 ", %d);\n", original,
          each, original);
  fprintf(t->f, "  u32 low = word_of(split_at(k, 1, 2, %d), j, %" PRId64 ", %d);\n", original, each,
          original);
  fprintf(t->f, "  y0[i] = (i32)(%uu + (high %% %uu * %uu + low %% %uu) %% %uu);\n", (unsigned)lo,
          span, word, span, span);
  return mr__kernel_end(t, diag);
}

/* Writes the key whose words order round `round`, as `k`. */
static void write_round_key(mr_kernel_text_t *t, int round, int original) {
  fputs("  key k = key_of(x0[2 * o], x0[2 * o + 1]);\n", t->f);
  for (int r = 0; r < round; r++) fprintf(t->f, "  k = split_at(k, 0, 2, %d);\n", original);
  fprintf(t->f, "  k = split_at(k, 1, 2, %d);\n", original);
}

/* Each round sorts the numbers by random words; equal words keep their order.  Every number counts
   those that come before it, which gives its place without exchanges.  Rounds pass the numbers
   between the scratch and the result. */
mr_err_t mr__kernel_random_permutation(mr_kernel_text_t *t, mr_diag_t *diag) {
  int64_t n = mr_attr_get(t->e, "shape")->i[0], all = n * mr__key_count(t->e);
  int rounds = n > 1 ? (int)ceil(3 * log((double)n) / log(UINT32_MAX)) : 0;
  int original = is_original(t->e);
  if (rounds > MR_KERNELS_MAX - 1)
    return mr_fail(diag, MR_ERR_NORULE,
                   "random_permutation: there is no device kernel for %" PRId64 " numbers", n);
  t->scratch_t = t->e->out[0]->aval.dtype;
  t->out->scratch_bytes = (size_t)all * mr_dtype_size(t->scratch_t);
  for (int r = 0; r <= rounds; r++) {
    bool to_result = (rounds - r) % 2 == 0;
    const char *to = to_result ? "y0" : "s", *from = to_result ? "s" : "y0";
    MR_TRY(mr__kernel_begin(t, all, diag));
    fprintf(t->f, "  u64 o = i / %" PRId64 ", j = i %% %" PRId64 ";\n", n, n);
    if (r == 0) {
      fprintf(t->f, "  %s[i] = j;\n", to);
    } else {
      write_round_key(t, r - 1, original);
      fprintf(t->f, "  u32 w = word_of(k, j, %" PRId64 ", %d); u64 place = 0;\n", n, original);
      fprintf(t->f,
              "  for (u64 m = 0; m < %" PRId64 "; m++) {\n    u32 v = word_of(k, m, %" PRId64
              ", %d);\n"
              "    place += v < w || (v == w && m < j);\n  }\n",
              n, n, original);
      fprintf(t->f, "  %s[o * %" PRId64 " + place] = %s[i];\n", to, n, from);
    }
    MR_TRY(mr__kernel_end(t, diag));
  }
  return MR_OK;
}

mr_err_t mr__kernel_random_split(mr_kernel_text_t *t, mr_diag_t *diag) {
  int64_t n = mr_aval_elems(&t->e->out[0]->aval) / 2, each = n / mr__key_count(t->e);
  MR_TRY(mr__kernel_begin(t, n, diag));
  fprintf(t->f, "  u64 o = i / %" PRId64 ";\n", each);
  fprintf(t->f,
          "  key k = split_at(key_of(x0[2 * o], x0[2 * o + 1]), i %% %" PRId64 ", %" PRId64
          ", %d);\n",
          each, each, is_original(t->e));
  fputs("  y0[2 * i] = k.a; y0[2 * i + 1] = k.b;\n", t->f);
  return mr__kernel_end(t, diag);
}

mr_err_t mr__kernel_random_fold_in(mr_kernel_text_t *t, mr_diag_t *diag) {
  MR_TRY(mr__kernel_begin(t, mr__key_count(t->e), diag));
  fputs("  key k = threefry(key_of(x0[2 * i], x0[2 * i + 1]), 0, (u32)x1[i]);\n", t->f);
  fputs("  y0[2 * i] = k.a; y0[2 * i + 1] = k.b;\n", t->f);
  return mr__kernel_end(t, diag);
}
