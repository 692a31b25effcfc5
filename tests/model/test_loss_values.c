/* Pictures as bytes: the values that a graph computes of them are, for every byte, those of
   f32(f32(f32(x / 255) - mean) / std), on the CPU and on an OpenCL device if there is one. */
// clang-format off
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
// clang-format on

#include <stdio.h>
#include <string.h>

#include "base/philox.h"
#include "model/exec/device.h"
#include "model/exec/exec.h"
#include "model/nn/loss.h"

enum { BYTES = 256, MOST = 3 };

static float want_of(int x, float mean, float std) {
  volatile float scaled = (float)x / 255.0f;
  volatile float centred = scaled - mean;
  return centred / std;
}

/* All bytes in each of C channels, of pictures of one pixel. */
static void values_on(const mr_device_t *b, const mr_model_field_t *field, int C) {
  static _Alignas(64) uint8_t in[BYTES * MOST];
  static _Alignas(64) float out[BYTES * MOST];
  mr_diag_t diag = {0};
  mr_exec_t *x = NULL;
  mr_fn_t *f = mr_fn_create();
  mr_aval_t a = mr_loss_held(field);
  int64_t dim[4] = {BYTES, a.dim[0], a.dim[1], a.dim[2]};
  mr_var_t *v = mr_loss_values(f, field, mr_fn_input(f, mr_aval(a.dtype, 4, dim)));
  assert_int_equal(mr_fn_return(f, 1, &v), MR_OK);
  if (mr_compile(f, &(mr_compile_options_t){.device = b}, &x, &diag) < 0) fail_msg("%s", diag.text);
  for (int i = 0; i < BYTES * C; i++) in[i] = (uint8_t)(i / C);
  size_t n_in = (size_t)(BYTES * C), n_out = n_in * sizeof(float);
  void *there = mr_device_take(b, n_in), *result = mr_device_take(b, n_out);
  mr_device_copy(b, there, in, n_in, MR_COPY_IN);
  mr_exec_run(x, (const void *[]){there}, (void *[]){result});
  mr_device_copy(b, out, result, n_out, MR_COPY_OUT);
  for (int i = 0; i < BYTES * C; i++) {
    float want = want_of(i / C, field->mean[i % C], field->std[i % C]);
    if (memcmp(&want, &out[i], sizeof want))
      fail_msg("%s: byte %d with mean %.9g and std %.9g gives %.9g, want %.9g", b->name, i / C,
               (double)field->mean[i % C], (double)field->std[i % C], (double)out[i], (double)want);
  }
  mr_device_give(b, there, n_in), mr_device_give(b, result, n_out);
  mr_exec_destroy(x);
  mr_fn_destroy(f);
}

static mr_model_field_t field_of(int C, bool hwc, const float *mean, const float *std) {
  mr_model_field_t f = {.name = "image",
                        .aval = {.dtype = MR_F32, .ndim = 3, .dim = {1, 1, 1}},
                        .held = MR_U8,
                        .channel = hwc ? 2 : 0};
  f.aval.dim[f.channel] = C;
  memcpy(f.mean, mean, (size_t)C * sizeof *mean);
  memcpy(f.std, std, (size_t)C * sizeof *std);
  return f;
}

static void bytes_have_the_values_of_normalize(void **state) {
  const mr_device_t *b = *state;
  static const float mean[][3] = {
      {0.4914f, 0.4822f, 0.4465f}, {0.485f, 0.456f, 0.406f}, {0, 0, 0}, {0.5f, 0.5f, 0.5f}};
  static const float std[][3] = {
      {0.2023f, 0.1994f, 0.2010f}, {0.229f, 0.224f, 0.225f}, {1, 1, 1}, {0.5f, 0.5f, 0.5f}};
  mr_philox_t g;
  mr_philox_init(&g, 11, 0);
  for (int i = 0; i < 4; i++)
    for (int C = 1; C <= MOST; C += 2) {
      mr_model_field_t f = field_of(C, i % 2, mean[i], std[i]);
      values_on(b, &f, C);
    }
  for (int i = 0; i < 6; i++) {
    float m[3], s[3];
    for (int c = 0; c < 3; c++)
      m[c] = (float)mr_philox_uniform(&g, -1, 1), s[c] = (float)mr_philox_uniform(&g, 0.01, 2);
    mr_model_field_t f = field_of(2 + i % 2, i % 3, m, s);
    values_on(b, &f, 2 + i % 2);
  }
}

static void a_field_of_bf16_is_widened_and_others_are_left_alone(void **state) {
  mr_fn_t *f = mr_fn_create();
  mr_model_field_t field = {.aval = {.dtype = MR_F32, .ndim = 1, .dim = {4}}};
  mr_var_t *x = mr_fn_input(f, mr_aval_of(MR_F32, 4));
  assert_ptr_equal(mr_loss_values(f, &field, x), x);
  field.held = MR_BF16;
  assert_int_equal(mr_loss_held(&field).dtype, MR_BF16);
  mr_var_t *wide = mr_loss_values(f, &field, mr_fn_input(f, mr_aval_of(MR_BF16, 4)));
  assert_int_equal(wide->aval.dtype, MR_F32);
  assert_int_equal(f->n_eqn, 1);
  mr_fn_destroy(f);
}

int main(void) {
  const mr_device_t *device = NULL, *cpu = mr_device_default();
  mr_diag_t diag = {0};
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* drivers are not built so */
  if (mr_device_open("opencl", &device, &diag) < 0) print_message("%s\n", diag.text);
#endif
  const struct CMUnitTest tests[] = {
      {"bytes_have_the_values_of_normalize_here", bytes_have_the_values_of_normalize, NULL, NULL,
       (void *)cpu},
      {"bytes_have_the_values_of_normalize_there", bytes_have_the_values_of_normalize, NULL, NULL,
       (void *)(device ? device : cpu)},
      cmocka_unit_test(a_field_of_bf16_is_widened_and_others_are_left_alone),
  };
  (void)diag;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
