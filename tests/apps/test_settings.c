/* The numbers that settings take: the rows of all stages and models are walked.  A default such as
   -1, which stands for "the usual value", is the only number outside of its row's range. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

#include "base/text.h"
#include "links/links.h"
#include "loaders/loaders.h"
#include "model/zoo/zoo.h"
#include "pipeline/opt.h"
#include "pipeline/registry.h"
#include "sinks/sinks.h"
#include "stages/stages.h"
#include "tests/apps/program.h"

static mr_registry_t reg;

static int set_up(void **state) {
  mr_registry_add(&reg, mr_loaders_stages);
  mr_registry_add(&reg, mr_stages_stages);
  mr_registry_add(&reg, mr_links_stages);
  mr_registry_add(&reg, mr_sinks_stages);
  return 0;
}

static bool takes_number(const mr_opt_t *o, void *in, double v) {
  char text[64];
  mr_diag_t diag = {0};
  mr_snprintf(text, sizeof text, o->type == MR_OPT_INT ? "%.0f" : "%.17g", v);
  return mr_opt_set(o, in, "stage", text, &diag) == MR_OK;
}

/* Numbers around each border of a row, in [-1,0) and far away. */
static void takes_its_range_and_default_alone(const char *who, const mr_opt_t *o, size_t size) {
  if (o->type != MR_OPT_INT && o->type != MR_OPT_F64) return;
  if (o->lo == o->hi) return; /* any number */
  void *in = calloc(1, size + 64);
  double usual = o->def ? mr_strtod(o->def, NULL) : NAN, step = o->type == MR_OPT_INT ? 1 : 1e-6;
  const double tries[] = {-0.5,      -1e-6,     -1,    -1 + 1e-6,    -1 - 1e-6,
                          -2,        -1e9,      o->lo, o->lo - step, o->lo + step,
                          o->hi,     o->hi * 2, usual, usual + step, usual - step,
                          usual / 2, usual * 2, 0,     o->lo - 0.5,  -o->hi};
  for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
    double v = o->type == MR_OPT_INT ? round(tries[i]) : tries[i];
    if (isnan(v)) continue;
    bool want = (v >= o->lo && v <= o->hi) || v == usual;
    if (takes_number(o, in, v) != want)
      fail_msg("%s %s = %.17g is %s; its range is [%.17g,%.17g], its default %s", who, o->name, v,
               want ? "refused" : "taken", o->lo, o->hi, o->def ? o->def : "none");
  }
  free(in);
}

/* A number with a meaning of its own, as in "-1: none", has nothing beside it that could be meant:
   the row's range does not go from it to the numbers of the setting. */
static void special_number_has_no_neighbours(const char *who, const mr_opt_t *o) {
  char mark[80];
  if (o->type != MR_OPT_F64 || o->lo >= 0 || !o->def) return;
  mr_snprintf(mark, sizeof mark, "%s: ", o->def);
  if (mr_strtod(o->def, NULL) < 0 && strstr(o->help, mark))
    fail_msg("%s %s: %s has a meaning of its own, but [%.17g,%.17g] has numbers beside it", who,
             o->name, o->def, o->lo, o->hi);
}

static int walk_rows(const char *who, const mr_opt_t *o, size_t size) {
  int n = 0;
  for (; o && o->type != MR_OPT_END; o++, n++) {
    takes_its_range_and_default_alone(who, o, size);
    special_number_has_no_neighbours(who, o);
  }
  return n;
}

static void no_setting_takes_a_number_that_it_does_not_mean(void **state) {
  int n = 0;
  for (int i = 0; i < reg.n; i++) {
    const mr_stage_def_t *d = mr_stage_def_usual(reg.def[i]);
    n += walk_rows(d->name, d->opts, d->state_sz);
  }
  for (int i = 0; mr_model_at(i); i++)
    n += walk_rows(mr_model_at(i)->name, mr_model_at(i)->opts, mr_model_at(i)->state_sz);
  assert_true(n > 300);
}

/* What the walk cannot see: the program itself, with the words of a command line. */
static void usual_values_are_chosen_by_leaving_them_out(void **state) {
  static const char *const tries[][2] = {
      {"adamw", "eps=-0.5"},   {"adamw", "eps=-1e-6"},         {"adamw", "b1=-0.5"},
      {"adamw", "b2=-0.5"},    {"adamw", "weight-decay=-0.5"}, {"adamw", "weight-decay=-2"},
      {"momentum", "b1=-0.9"}, {"lion", "b2=-0.99"},           {"lamb", "eps=-1e-30"}};
  program_t p;
  for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
    char optimizer[32];
    snprintf(optimizer, sizeof optimizer, "optimizer=%s", tries[i][0]);
    RUN(&p, "profile", "model=mlp", "hidden=4", optimizer, tries[i][1]);
    char *name = strndup(tries[i][1], strcspn(tries[i][1], "="));
    if (!p.status || !strstr(p.err, name) || !strstr(p.err, ", or -1"))
      fail_msg("%s with %s: status %d: %s", tries[i][1], tries[i][0], p.status, p.err);
    free(name);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_setting_takes_a_number_that_it_does_not_mean),
      cmocka_unit_test(usual_values_are_chosen_by_leaving_them_out)};
  return cmocka_run_group_tests(tests, set_up, NULL);
}
