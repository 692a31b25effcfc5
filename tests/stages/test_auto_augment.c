/* rand-augment, auto-augment and trivial-augment: what they draw, against torchvision's tables
   (tests/golden/augment.py), and what they make of a picture, against the operations alone. */
#include <math.h>

#include "base/text.h"
#include "pipeline/stage_map.h"
#include "stages/augment.h"
#include "tests/random.h"
#include "tests/stage.h"

extern const mr_stage_def_t mr_stage_rand_augment, mr_stage_auto_augment, mr_stage_trivial_augment;

enum { H = 224, W = 321, BINS_MAX = 31, PAIRS = 25 };

typedef struct table {
  bool has, is_signed;
  float bin[BINS_MAX];
} table_t;

static table_t usual_31[MR_AUGMENT_OPS], usual_10[MR_AUGMENT_OPS], wide_31[MR_AUGMENT_OPS];

static FILE *own_vectors(const char *name) { return vectors_open(name); }

static void magnitudes_are_torchs(void **state) {
  FILE *f = own_vectors("augment_magnitudes.txt");
  static char line[4096];
  int rows = 0;
  while (vectors_line(f, line, sizeof line)) {
    char space[16], *at = line;
    int bins, op, sign, n;
    assert_int_equal(sscanf(line, "%15s %d %d %d%n", space, &bins, &op, &sign, &n), 4);
    bool usual = !strcmp(space, "usual");
    table_t t = {.is_signed = sign};
    at += n;
    t.has = *at == ' ';
    for (int k = 0; k < bins; k++) {
      t.bin[k] = t.has ? (float)mr_strtod(at, &at) : 0;
      float got = mr_augment_magnitude(usual ? &mr_augment_usual : &mr_augment_wide,
                                       (mr_augment_op_t)op, bins, k, H, W);
      if (memcmp(&got, &t.bin[k], sizeof got)) fail_msg("%s: bin %d is %a", line, k, got);
    }
    assert_true(mr_augment_has_magnitude((mr_augment_op_t)op) == t.has);
    assert_true(mr_augment_is_signed((mr_augment_op_t)op) == t.is_signed);
    if (bins == 31) (usual ? usual_31 : wide_31)[op] = t;
    if (bins == 10 && usual) usual_10[op] = t;
    rows++;
  }
  fclose(f);
  assert_int_equal(rows, 2 * 4 * MR_AUGMENT_DRAWN);
}

/* ---- the stages ---- */

/* A picture, the draws of a stage on it so far, and the operations that they name. */
typedef struct oracle {
  mr_philox_t g;
  mr_canvas_t c;
  mr_rec_t note;
  mr_pil_sampling_t how;
} oracle_t;

static void oracle_apply(oracle_t *o, int op, const table_t *t, int bin) {
  float v = t->has ? t->bin[bin] : 0;
  double shear;
  uint32_t bits;
  if (t->is_signed && mr_philox_random(&o->g) <= 0.5) v = -v;
  memcpy(&bits, &v, 4);
  mr_draw_note(&o->note, (uint64_t)op << 32 | bits);
  shear = atan((double)v) * (180 / M_PI);
  switch (op) {
    case 0: break;
    case 1: mr_pil_shear(&o->c, shear, 0, 0, 0, &o->how); break;
    case 2: mr_pil_shear(&o->c, 0, shear, 0, 0, &o->how); break;
    case 3: mr_pil_translate(&o->c, (int)v, 0, &o->how); break;
    case 4: mr_pil_translate(&o->c, 0, (int)v, &o->how); break;
    case 5: mr_pil_rotate(&o->c, v, &o->how); break;
    case 6: mr_pil_brightness(&o->c, 1.0 + (double)v); break;
    case 7: mr_pil_saturation(&o->c, 1.0 + (double)v); break;
    case 8: mr_pil_contrast(&o->c, 1.0 + (double)v); break;
    case 9: mr_pil_sharpness(&o->c, 1.0 + (double)v); break;
    case 10: mr_pil_posterize(&o->c, (int)v); break;
    case 11: mr_pil_solarize(&o->c, 255.0 * (double)v); break;
    case 12: mr_pil_autocontrast(&o->c); break;
    case 13: mr_pil_equalize(&o->c); break;
    default: mr_pil_invert(&o->c);
  }
}

/* Runs the stage on a random picture in a random layout, draws the same with the oracle, and
   compares. */
static void check_stage(round_t *r, const mr_stage_def_t *def, const char *const *settings,
                        bool bilinear, uint8_t fill, void (*draw_all)(oracle_t *, const void *),
                        const void *arg) {
  int C = one_in(r, 4) ? 1 : 3;
  bool hwc = one_in(r, 2);
  size_t n = (size_t)(C * H * W);
  uint64_t key = round_bits(r);
  uint8_t *in = malloc(n), *room = malloc(n), *got = malloc(n);
  oracle_t o = {.c = {.h = H, .w = W, .C = C, .at = malloc(n), .spare = malloc(n)},
                .how = {bilinear, {fill, fill, fill}}};
  uint8_t *memory[2] = {o.c.at, o.c.spare};
  assert_true(in && room && got && memory[0] && memory[1]);
  for (size_t k = 0; k < n; k++) in[k] = (uint8_t)(draw(r, 120) + k / 500 % 120);
  mr_field_t f = {.name = "image",
                  .dtype = MR_U8,
                  .layout = hwc ? MR_LAYOUT_HWC : MR_LAYOUT_CHW,
                  .ndim = 3,
                  .dim = {hwc ? H : C, hwc ? W : H, hwc ? C : W}};
  mr_spec_t spec = {.flow = MR_FLOW_RECORDS, .n_fields = 1, .field = {f}, .seeded = true};
  mr_philox_t g;
  hand_t h;
  mr_philox_init(&g, key, 0), mr_philox_init(&o.g, key, 0);
  if (hand_open(&h, def, &spec, settings) != MR_OK) fail_msg("%s", h.diag.text);
  h.s.scratch = calloc(1, h.s.scratch_bytes);
  mr_rec_t a = HAND_REC(in, .rng = &g), b = HAND_REC(room, .rng = &g);
  if (def->map->run(&h.s, &a, &b) != MR_OK) fail_msg("%s", h.diag.text);
  if (hwc)
    memcpy(o.c.at, in, n), memcpy(got, b.field->data, n);
  else
    mr_pixels_join(in, H, W, C, o.c.at), mr_pixels_join(b.field->data, H, W, C, got);
  draw_all(&o, arg);
  round_check(r, b.draw == o.note.draw, "%s: the draws", def->name);
  round_check(r, !memcmp(got, o.c.at, n), "%s: the pixels", def->name);
  round_check(r, mr_philox_next64(&g) == mr_philox_next64(&o.g), "%s: how many draws", def->name);
  def->map->leave(&h.s);
  free(h.s.scratch);
  hand_close(&h);
  free(in), free(room), free(got), free(memory[0]), free(memory[1]);
}

static void draw_rand_augment(oracle_t *o, const void *arg) {
  const int *n = arg; /* operations, bin */
  for (int k = 0; k < n[0]; k++) {
    int op = (int)mr_philox_integers(&o->g, 0, 14);
    oracle_apply(o, op, &usual_31[op], n[1]);
  }
}

static void rand_augment_draws_operations_of_one_magnitude(void **state) {
  round_t r = round_first(40);
  while (round_next(&r)) {
    int n[2] = {draw(&r, 5), draw(&r, 31)}, fill = draw(&r, 256);
    bool bilinear = one_in(&r, 3);
    char ops[32], bin[32], level[32];
    snprintf(ops, 32, "ops=%d", n[0]), snprintf(bin, 32, "magnitude=%d", n[1]);
    snprintf(level, 32, "fill=%d", fill);
    check_stage(&r, &mr_stage_rand_augment,
                HAND_SETTINGS(ops, bin, level, bilinear ? "filter=bilinear" : "filter=nearest"),
                bilinear, (uint8_t)fill, draw_rand_augment, n);
  }
}

static void draw_trivial_augment(oracle_t *o, const void *arg) {
  int op = (int)mr_philox_integers(&o->g, 0, 14);
  int bin = wide_31[op].has ? (int)mr_philox_integers(&o->g, 0, 31) : 0;
  oracle_apply(o, op, &wide_31[op], bin);
}

static void trivial_augment_draws_one_operation_and_its_magnitude(void **state) {
  round_t r = round_first(40);
  while (round_next(&r))
    check_stage(&r, &mr_stage_trivial_augment, NULL, false, 0, draw_trivial_augment, NULL);
}

typedef struct pair {
  int op[2], bin[2];
  double p[2];
} pair_t;

static void draw_auto_augment(oracle_t *o, const void *arg) {
  const pair_t *pair = (const pair_t *)arg + mr_philox_integers(&o->g, 0, PAIRS);
  static const table_t invert;
  for (int k = 0; k < 2; k++) {
    int op = pair->op[k];
    if (mr_philox_random(&o->g) <= pair->p[k])
      oracle_apply(o, op, op == MR_AUGMENT_INVERT ? &invert : &usual_10[op], pair->bin[k]);
  }
}

static void auto_augment_draws_a_pair_of_its_policy(void **state) {
  static const char *const names[] = {"imagenet", "cifar10", "svhn"};
  /* AutoAugment's own list has no identity, and ends with the inversion */
  pair_t pair[3][PAIRS];
  char line[256], name[32];
  int rows = 0;
  FILE *f = own_vectors("augment_policies.txt");
  while (vectors_line(f, line, sizeof line)) {
    assert_true(rows < 3 * PAIRS);
    pair_t *p = &pair[rows / PAIRS][rows % PAIRS];
    rows++;
    assert_int_equal(sscanf(line, "%31s %d %lf %d %d %lf %d", name, &p->op[0], &p->p[0], &p->bin[0],
                            &p->op[1], &p->p[1], &p->bin[1]),
                     7);
    assert_string_equal(name, names[(rows - 1) / PAIRS]);
    p->op[0]++, p->op[1]++;
  }
  fclose(f);
  assert_int_equal(rows, 3 * PAIRS);
  round_t r = round_first(1500); /* each of 75 pairs some twenty times */
  while (round_next(&r)) {
    int k = draw(&r, 3);
    char policy[32];
    snprintf(policy, sizeof policy, "policy=%s", names[k]);
    check_stage(&r, &mr_stage_auto_augment, HAND_SETTINGS(policy), false, 0, draw_auto_augment,
                pair[k]);
  }
}

static void settings_out_of_range_are_refused(void **state) {
  static const struct {
    const mr_stage_def_t *def;
    const char *setting, *says;
  } row[] = {{&mr_stage_rand_augment, "ops=-1", "ops"},
             {&mr_stage_rand_augment, "ops=1000000", "ops"},
             {&mr_stage_rand_augment, "magnitude=31", "magnitude"},
             {&mr_stage_rand_augment, "magnitude=-1", "magnitude"},
             {&mr_stage_rand_augment, "bins=1", "bins"},
             {&mr_stage_rand_augment, "fill=1,2", "fill"},
             {&mr_stage_rand_augment, "fill=nan", "fill"},
             {&mr_stage_rand_augment, "filter=bicubic", "nearest|bilinear"},
             {&mr_stage_trivial_augment, "bins=0", "bins"},
             {&mr_stage_trivial_augment, "bins=99999999999999999999", "bins"},
             {&mr_stage_auto_augment, "policy=mnist", "imagenet|cifar10|svhn"}};
  for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
    mr_field_t f = {
        .name = "image", .dtype = MR_U8, .layout = MR_LAYOUT_CHW, .ndim = 3, .dim = {3, 32, 32}};
    mr_spec_t spec = {.flow = MR_FLOW_RECORDS, .n_fields = 1, .field = {f}, .seeded = true};
    hand_t h;
    assert_int_equal(hand_plan(&h, row[k].def, &spec, HAND_SETTINGS(row[k].setting)),
                     MR_ERR_CONFIG);
    if (!strstr(h.diag.text, row[k].says)) fail_msg("%s: %s", row[k].setting, h.diag.text);
    hand_close(&h);
    spec.seeded = false;
    assert_int_equal(hand_plan(&h, row[k].def, &spec, NULL), MR_ERR_CONFIG);
    assert_non_null(strstr(h.diag.text, "no generator"));
    hand_close(&h);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(magnitudes_are_torchs), /* reads the tables that the next ones use */
      cmocka_unit_test(rand_augment_draws_operations_of_one_magnitude),
      cmocka_unit_test(trivial_augment_draws_one_operation_and_its_magnitude),
      cmocka_unit_test(auto_augment_draws_a_pair_of_its_policy),
      cmocka_unit_test(settings_out_of_range_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
