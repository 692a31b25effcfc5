/* The functions of tile.h, which kernels have as text, against the layouts that PTX's manual gives
   for mma.m16n8k16 and ldmatrix: every element of a tile is held once, by the item that the
   instruction expects it from, and no read or write of a warp meets another one in a bank of shared
   memory. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <string.h>

#include "model/backends/kernels/kernel.h"
#include "model/backends/kernels/tile.h"
#include "model/model.h"
#include "model/ops/lax.h"

enum { WARP = 32, BANKS = 32, TILE = 16 };

static void sums_hold_each_element_once(void **state) {
  int seen[TILE][TILE] = {0};
  for (int lane = 0; lane < WARP; lane++)
    for (int j = 0; j < 8; j++) {
      int row = mr__tile_row(lane, j), col = mr__tile_col(lane, j);
      assert_in_range(row, 0, TILE - 1);
      assert_in_range(col, 0, TILE - 1);
      seen[row][col]++;
      /* c0 to c3 of the left product, then those of the right one */
      assert_int_equal(row, lane / 4 + (j & 2 ? 8 : 0));
      assert_int_equal(col, 2 * (lane % 4) + (j & 1) + (j & 4 ? 8 : 0));
    }
  for (int i = 0; i < TILE * TILE; i++) assert_int_equal(seen[i / TILE][i % TILE], 1);
}

/* What ldmatrix.x4 gives an item: value h of register r, as row * 16 + col of the tile in memory.
   Matrix r has its rows where items 8 r to 8 r + 7 point. */
static int loaded(bool far, bool turned, int lane, int r, int h) {
  int row = lane / 4, col = 2 * (lane % 4) + h; /* of the 8 x 8 matrix, or of its transpose */
  int from = 8 * r + (turned ? col : row), in = turned ? row : col;
  int at_row = far ? mr__far_row(from) : mr__near_row(from);
  int at_col = far ? mr__far_col(from) : mr__near_col(from);
  return at_row * TILE + at_col + in;
}

/* Register r of the left operand is of rows g and g + 8 in turn, then of terms 8 on. */
static void left_operands_are_what_the_product_expects(void **state) {
  for (int turned = 0; turned < 2; turned++) {
    int seen[TILE * TILE] = {0};
    for (int lane = 0; lane < WARP; lane++)
      for (int r = 0; r < 4; r++)
        for (int h = 0; h < 2; h++) {
          int m = lane / 4 + 8 * (r % 2), k = 2 * (lane % 4) + h + 8 * (r / 2);
          int at = loaded(turned, turned, lane, r, h);
          assert_int_equal(at, turned ? k * TILE + m : m * TILE + k);
          seen[at]++;
        }
    for (int i = 0; i < TILE * TILE; i++) assert_int_equal(seen[i], 1);
  }
}

/* Registers 0 and 1 of the right operand are of columns 0 to 7, 2 and 3 of the others; the second
   of each pair is of terms 8 on. */
static void right_operands_are_what_the_product_expects(void **state) {
  for (int turned = 0; turned < 2; turned++) {
    int seen[TILE * TILE] = {0};
    for (int lane = 0; lane < WARP; lane++)
      for (int r = 0; r < 4; r++)
        for (int h = 0; h < 2; h++) {
          int n = lane / 4 + 8 * (r / 2), k = 2 * (lane % 4) + h + 8 * (r % 2);
          int at = loaded(turned, !turned, lane, r, h);
          assert_int_equal(at, turned ? n * TILE + k : k * TILE + n);
          seen[at]++;
        }
    for (int i = 0; i < TILE * TILE; i++) assert_int_equal(seen[i], 1);
  }
}

/* The most of n items whose words, each `each` in a row from word[i], share a bank; 1: each has
   its own. */
static int conflicts(const int *word, int n, int each) {
  int in[BANKS] = {0}, most = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < each; k++) in[(word[i] + k) % BANKS]++;
  for (int b = 0; b < BANKS; b++) most = in[b] > most ? in[b] : most;
  return most;
}

/* ldmatrix reads 8 rows of 16 bytes at a time; a warp's words are written at once. */
static void no_two_items_meet_in_a_bank(void **state) {
  for (int n = TILE; n <= 80; n += TILE) {
    int pitch = mr__tile_pitch(n), word[WARP];
    for (int far = 0; far < 2; far++)
      for (int first = 0; first < WARP; first += 8) {
        for (int i = 0; i < 8; i++) {
          int lane = first + i;
          word[i] = far ? mr__far_row(lane) * pitch + mr__far_col(lane) / 2
                        : mr__near_row(lane) * pitch + mr__near_col(lane) / 2;
          assert_int_equal(word[i] % 4, 0); /* ldmatrix wants 16 bytes */
        }
        assert_int_equal(conflicts(word, 8, 4), 1);
      }
    for (int j = 0; j < 8; j += 2) {
      for (int lane = 0; lane < WARP; lane++)
        word[lane] = mr__tile_row(lane, j) * pitch + mr__tile_col(lane, j) / 2;
      assert_int_equal(conflicts(word, WARP, 1), 1);
    }
    for (int h = 0; h < 2; h++) { /* sums behind the rows */
      for (int lane = 0; lane < WARP; lane++)
        word[lane] = mr__tile_row(lane, 2 * h) * pitch + n / 2 + lane % 4;
      assert_int_equal(conflicts(word, WARP, 1), 1);
    }
  }
}

/* ---- the kernel's memory ---- */

static size_t shared_by(int64_t T, int64_t D, bool backward) {
  mr_fn_t *f = mr_fn_create();
  mr_attr_t scale = mr_attr_float("scale", 0.5);
  mr_var_t *in[4] = {mr_fn_input(f, mr_aval_of(MR_BF16, 1, T, 3, 1, D))};
  mr_eqn_t *e = mr_emit(f, &mr_op_attention, 1, in, 1, &scale, 2);
  assert_non_null(e);
  in[1] = e->out[0], in[2] = e->out[1], in[3] = e->out[0];
  if (backward) e = mr_emit(f, &mr_op_attention_vjp, 4, in, 1, &scale, 1);
  assert_non_null(e);
  mr_kernels_t k = {0};
  mr_diag_t diag = {0};
  size_t bytes = 0;
  if (mr_kernels_attend(e, SIZE_MAX)) {
    if (mr_kernels_write(e, 64, &k, &diag) < 0) fail_msg("%s", diag.text);
    bytes = k.kernel[0].shared;
    assert_int_equal(k.n, 1);
    assert_true(mr_kernels_attend(e, bytes) && !mr_kernels_attend(e, bytes - 1));
  } else {
    assert_int_equal(mr_kernels_write(e, 64, &k, &diag), MR_ERR_NORULE);
  }
  mr_kernels_fini(&k);
  mr_fn_destroy(f);
  return bytes;
}

static void a_head_fits_into_48_kib(void **state) {
  for (int64_t T = 1; T <= 80; T++)
    for (int64_t D = 8; D <= 64; D += 8)
      for (int backward = 0; backward < 2; backward++) {
        size_t bytes = shared_by(T, D, backward);
        assert_in_range(bytes, 1, 48 << 10);
      }
  assert_int_equal(shared_by(65, 48, false), 26880);
  assert_int_equal(shared_by(65, 48, true), 40960);
  assert_int_equal(shared_by(81, 48, false), 0);
  assert_int_equal(shared_by(65, 72, true), 0);
  assert_int_equal(shared_by(65, 44, true), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_hold_each_element_once),
      cmocka_unit_test(left_operands_are_what_the_product_expects),
      cmocka_unit_test(right_operands_are_what_the_product_expects),
      cmocka_unit_test(no_two_items_meet_in_a_bank),
      cmocka_unit_test(a_head_fits_into_48_kib),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
