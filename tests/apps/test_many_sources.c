/* Graphs with many sources: inputs that are alike are taken in the order of linking, each source's
   record is in the lineage, and each seed counts in a default seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/seedseq.h"
#include "loaders/loaders.h"
#include "pipeline/graph/graph.h"
#include "sinks/sinks.h"
#include "stages/stages.h"
#include "tests/apps/program.h"

enum { TEXT = 1 << 14, INPUTS = 8 /* that the stages which join streams describe */ };

static program_t p;
static char text[TEXT];
static size_t n_text;

static void __attribute__((format(printf, 1, 2))) add_text(const char *fmt, ...) {
  va_list a;
  va_start(a, fmt);
  n_text += (size_t)vsnprintf(text + n_text, TEXT - n_text, fmt, a);
  va_end(a);
  assert_true(n_text < TEXT);
}

static mr_graph_t *graph_of(const char *from) {
  static mr_registry_t reg;
  mr_diag_t diag = {0};
  if (!reg.n) {
    mr_registry_add(&reg, mr_loaders_stages);
    mr_registry_add(&reg, mr_stages_stages);
    mr_registry_add(&reg, mr_sinks_stages);
  }
  mr_graph_t *g = mr_graph_create(&reg);
  assert_non_null(g);
  if (mr_graph_parse(g, from, NULL, 0, &diag) < 0) fail_msg("%s", diag.text);
  return g;
}

static void a_link_that_names_no_input_takes_the_first_free_one(void **state) {
  static const char *const kind[] = {"mix", "zip", "concatenate", "interleave", "gather"};
  for (size_t k = 0; k < sizeof kind / sizeof *kind; k++)
    for (int n = INPUTS; n <= 16 * INPUTS; n += 15 * INPUTS) {
      bool gather = !strcmp(kind[k], "gather");
      n_text = 0;
      for (int i = 0; i < n; i++)
        add_text("range 640 name=r%d !%s m.\n", i,
                 gather   ? " shuffle seed=1 ! batch 8 !"
                 : i == 3 ? " repeat 1 !"
                          : "");
      add_text("%s name=m %s! %snull\n", kind[k],
               gather                           ? "size=64 "
               : !strcmp(kind[k], "interleave") ? "2 "
                                                : "",
               gather ? "" : "batch 4 ! ");
      RUN(&p, "graph", text);
      if (p.status) fail_msg("%s: %s", kind[k], p.err);
    }
}

static void inputs_without_names_are_numbered_in_the_order_of_linking(void **state) {
  char unnamed[TEXT];
  n_text = 0;
  for (int i = 0; i < INPUTS; i++) add_text("range %d stop=%d ! m.\n", 100 * i, 100 * i + 10);
  add_text("mix 1,2,3,4,5,6,7,8 name=m ! batch 16 ! null\n");
  RUN(&p, "batch", text, "--step", "2");
  if (p.status) fail_msg("%s", p.err);
  strcpy(unnamed, p.out);
  n_text = 0;
  for (int i = INPUTS - 1; i >= 0; i--)
    add_text("range %d stop=%d ! m.%c\n", 100 * i, 100 * i + 10, 'a' + i);
  add_text("mix 1,2,3,4,5,6,7,8 name=m ! batch 16 ! null\n");
  RUN(&p, "batch", text, "--step", "2");
  if (p.status) fail_msg("%s", p.err);
  assert_string_equal(p.out, unnamed);
}

/* Three stages of eight inputs before one: `before` is what a source has behind it, with its number
   for %d. */
static void three_times_eight(const char *join, const char *before, const char *after) {
  n_text = 0;
  for (int k = 0; k < 3; k++) {
    for (int i = 0; i < INPUTS; i++) {
      add_text("range 100 name=r%d", INPUTS * k + i);
      if (*before) add_text(" ! %s%d", before, 70 + INPUTS * k + i);
      add_text(" ! j%d.\n", k);
    }
    add_text("%s name=j%d ! j.\n", join, k);
  }
  add_text("%s name=j ! %s batch 4 ! null\n", join, after);
}

static void each_source_of_a_joined_record_is_in_its_lineage(void **state) {
  three_times_eight("zip", "", "");
  RUN(&p, "who", text, "--step", "1");
  if (p.status) fail_msg("%s", p.err);
  for (int i = 0; i < 3 * INPUTS; i++) {
    char name[16];
    snprintf(name, sizeof name, " r%d ", i);
    if (!strstr(p.out, name)) fail_msg("source%sis missing in:\n%s", name, p.out);
  }
}

/* grain hashes the seeds of all streams before a shuffle and their distances, breadth-first. */
static void the_seed_of_each_of_many_streams_counts_in_a_default_seed(void **state) {
  uint32_t word[2 * 3 * INPUTS], want;
  mr_diag_t diag = {0};
  three_times_eight("mix", "seed seed=", "shuffle name=last !");
  for (int i = 0; i < 3 * INPUTS; i++) word[2 * i] = (uint32_t)(70 + i), word[2 * i + 1] = 3;
  mr_seed_sequence(word, sizeof word / sizeof *word, &want, 1);
  mr_graph_t *g = graph_of(text);
  if (mr_graph_settle(g, &diag) < 0) fail_msg("%s", diag.text);
  const mr_stage_t *last = mr_graph_stage(g, "last");
  assert_true(last->has_default_seed);
  assert_int_equal(last->default_seed, want);
  mr_graph_destroy(g);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_link_that_names_no_input_takes_the_first_free_one),
      cmocka_unit_test(inputs_without_names_are_numbered_in_the_order_of_linking),
      cmocka_unit_test(each_source_of_a_joined_record_is_in_its_lineage),
      cmocka_unit_test(the_seed_of_each_of_many_streams_counts_in_a_default_seed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
