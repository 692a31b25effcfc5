/* Every hint leads to something that is accepted: the tables of all stages, settings and commands
   are walked, each word is used as a user would, and what the answer says to write is written. What
   a table cannot show, that both mean the same, is in a list of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "links/links.h"
#include "loaders/loaders.h"
#include "model/zoo/zoo.h"
#include "pipeline/graph/graph.h"
#include "sinks/sinks.h"
#include "stages/stages.h"
#include "tests/apps/program.h"

static mr_registry_t reg;
static program_t p;

static int set_up(void **state) {
  mr_registry_add(&reg, mr_loaders_stages);
  mr_registry_add(&reg, mr_stages_stages);
  mr_registry_add(&reg, mr_links_stages);
  mr_registry_add(&reg, mr_sinks_stages);
  return 0;
}

/* Takes the next word of a row's words into word; NULL behind the last. */
static const char *next_word(const char *at, char *word, size_t n) {
  at += strspn(at, " ");
  size_t len = strcspn(at, " ");
  snprintf(word, n, "%.*s", (int)len, at);
  return len ? at + len : NULL;
}

/* ---- what is accepted ---- */

/* Whether every value that a stage is given is one that its settings take. */
static bool takes_values(const mr_graph_t *g, const mr_stage_t *s, mr_diag_t *why) {
  bool good = true;
  void *state = calloc(1, s->def->state_sz + 64);
  for (const mr_opt_t *o = s->def->opts; o && o->type != MR_OPT_END && good; o++) {
    const char *text = mr_graph_setting(g, s->name, o->name);
    good = !text || mr_opt_set(o, state, s->name, text, why) == MR_OK;
  }
  free(state);
  return good;
}

/* Checks that a piece of graph text is one: it can be parsed behind what it continues, and its
   settings take their values.  Files that it names need not exist. */
static void accepted(const char *piece, const char *for_word) {
  char text[1024], first[64];
  mr_diag_t why = {0};
  next_word(piece, first, sizeof first);
  const mr_stage_def_t *d = mr_registry_find(&reg, first);
  if (!strncmp(piece, "train.", 6))
    snprintf(text, sizeof text, "synthetic ! batch 4 ! train-step name=train %s", piece);
  else if (!d)
    fail_msg("%s: \"%s\" begins with no stage", for_word, piece);
  else if (d->in[0].name)
    snprintf(text, sizeof text, "synthetic ! %s", piece);
  else
    snprintf(text, sizeof text, "%s", piece);
  mr_graph_t *g = mr_graph_create(&reg);
  if (mr_graph_parse(g, text, NULL, 0, &why) < 0) fail_msg("%s: %s: %s", for_word, text, why.text);
  for (int i = 0; i < mr_graph_n_stages(g); i++)
    if (!takes_values(g, mr_graph_stage_at(g, i), &why))
      fail_msg("%s: %s: %s", for_word, text, why.text);
  mr_graph_destroy(g);
}

/* The error of a user who writes this graph. */
static const char *reported(const char *text) {
  static mr_diag_t why;
  why = (mr_diag_t){0};
  mr_graph_t *g = mr_graph_create(&reg);
  mr_err_t e = mr_graph_parse(g, text, NULL, 0, &why);
  if (e >= 0) e = mr_graph_settle(g, &why);
  mr_graph_destroy(g);
  return e < 0 ? why.text : "";
}

/* ---- stages ---- */

static void every_word_for_a_stage_leads_to_text_that_is_accepted(void **state) {
  int n = 0;
  for (int i = 0; i < reg.n; i++)
    for (const mr_hint_t *row = reg.def[i]->hint; row && row->words; row++) {
      char word[64], text[256], hint[MR_HINT_MAX];
      for (const char *at = row->words; (at = next_word(at, word, sizeof word)); n++) {
        if (mr_registry_find(&reg, word)) fail_msg("%s is a stage", word);
        snprintf(text, sizeof text, "synthetic ! %s ! null", word);
        mr_registry_stage_hint(&reg, word, hint, sizeof hint);
        const char *says = reported(text);
        if (!*hint || !strstr(says, hint)) fail_msg("%s: \"%s\" is not in: %s", word, hint, says);
        if (row->write && !strstr(says, row->write)) fail_msg("%s: %s", word, says);
        for (int k = 0; k < reg.n; k++) /* no other table has the word */
          if (k != i && mr_hint_find(reg.def[k]->hint, word))
            fail_msg("%s is at %s and at %s", word, reg.def[i]->name, reg.def[k]->name);
        if (mr_hint_find(reg.def[i]->hint, word) != row) fail_msg("%s is in two rows", word);
      }
      if (row->write) accepted(row->write, row->words);
    }
  assert_true(n > 100);
}

/* ---- settings ---- */

static void check_other_words(const mr_stage_def_t *d, const mr_opt_t *o, int *n) {
  char word[64], hint[MR_HINT_MAX], want[96];
  for (const char *at = o->hint; at && (at = next_word(at, word, sizeof word)); ++*n) {
    if (mr_stage_def_knows(d, word)) fail_msg("%s: %s is a setting of its own", d->name, word);
    mr_registry_setting_hint(&reg, d, word, true, hint, sizeof hint);
    snprintf(want, sizeof want, "; it is \"%s\" here", o->name);
    if (strcmp(hint, want)) fail_msg("%s %s: %s, want %s", d->name, word, hint, want);
    if (mr_hint_find(d->setting_hint, word)) fail_msg("%s: %s has two meanings", d->name, word);
  }
}

static void check_values(const mr_stage_def_t *d, const mr_opt_t *o, int *n) {
  char word[64], hint[MR_HINT_MAX], want[96];
  for (const mr_hint_t *row = o->values; row && row->words; row++)
    for (const char *at = row->words; (at = next_word(at, word, sizeof word)); ++*n) {
      if (mr_is_choice(o->choices, word)) fail_msg("%s.%s: %s is a choice", d->name, o->name, word);
      mr_value_hint(o, word, hint, sizeof hint);
      snprintf(want, sizeof want, "; write %s", row->write);
      if (!mr_is_choice(o->choices, row->write)) want[0] = 0;
      if (strcmp(hint, want)) fail_msg("%s.%s=%s: \"%s\"", d->name, o->name, word, hint);
      char *room = calloc(1, d->state_sz + 64); /* what it says is taken */
      if (*want) assert_int_equal(mr_opt_set(o, room, d->name, row->write, NULL), MR_OK);
      free(room);
    }
}

static void check_rows(const mr_stage_def_t *d, int *n) {
  char word[64], text[512];
  for (const mr_hint_t *row = d->setting_hint; row && row->words; row++) {
    if (!row->write && !row->why) fail_msg("%s: the row %s says nothing", d->name, row->words);
    for (const char *at = row->words; (at = next_word(at, word, sizeof word)); ++*n)
      if (mr_hint_find(d->setting_hint, word) != row) fail_msg("%s: %s twice", d->name, word);
    if (!row->write) continue;
    next_word(row->write, word, sizeof word);
    bool chain = mr_registry_find(&reg, word) != NULL; /* else settings of this stage */
    snprintf(text, sizeof text, "%s%s%s", chain ? "" : d->name, chain ? "" : " ", row->write);
    accepted(text, row->words);
  }
}

static void check_settings_of(const mr_stage_def_t *d, int *n) {
  for (const mr_opt_t *o = d->opts; o && o->type != MR_OPT_END; o++) {
    check_other_words(d, o, n);
    check_values(d, o, n);
  }
}

static void every_word_for_a_setting_leads_to_one_that_takes_its_values(void **state) {
  int n = 0;
  for (int i = 0; i < reg.n; i++) {
    const mr_stage_def_t *d = reg.def[i];
    const mr_model_def_t *m;
    char hint[MR_HINT_MAX];
    check_settings_of(mr_stage_def_usual(d), &n);
    check_rows(mr_stage_def_usual(d), &n);
    for (int k = 0; d->choose && (m = mr_model_at(k)); k++) /* a model brings settings */
      if (d->choose(m->name, hint, sizeof hint))
        check_settings_of(d->choose(m->name, hint, sizeof hint), &n);
  }
  assert_true(n > 300);
}

/* ---- meaning ---- */

/* What people write who come from torch, timm, Hugging Face, Keras, tf.data, DALI, FFCV or
   GStreamer, with the one thing here that means the same; no: what must not be said, since it means
   something else. */
static const struct {
  const char *text, *says, *no;
} meaning[] = {
    {"synthetic ! normalize ! batch 4 ! train-step dtype=float16 ! null", "; write f16", "bf16;"},
    {"synthetic ! normalize ! batch 4 ! train-step dtype=fp16 ! null", "; write f16", NULL},
    {"synthetic ! normalize ! batch 4 ! train-step dtype=half ! null", "; write f16", NULL},
    {"synthetic ! normalize ! batch 4 ! train-step dtype=16 ! null", "; write f16", NULL},
    {"synthetic ! normalize ! batch 4 ! train-step dtype=16-mixed ! null", "; write f16", NULL},
    {"synthetic ! normalize ! batch 4 ! train-step dtype=mixed_float16 ! null", "; write f16",
     NULL},
    {"synthetic ! normalize ! batch 4 ! train-step dtype=bf16-mixed ! null", "; write bf16", NULL},
    {"synthetic ! normalize ! batch 4 ! train-step dtype=bfloat16 ! null", "; write bf16", NULL},
    {"synthetic ! normalize ! batch 4 ! train-step dtype=float32 ! null", "; write f32", NULL},
    {"synthetic ! normalize ! batch 4 ! train-step dtype=float64 ! null", "f32|bf16|f16", "write"},
    {"synthetic ! normalize ! batch 4 ! train-step fp16=true ! null", "dtype=f16", "bf16"},
    {"synthetic ! normalize ! batch 4 ! train-step bf16=true ! null", "dtype=bf16", NULL},
    {"synthetic ! normalize dtype=half ! batch 4 ! null", "f32|bf16|u8", "write"},
    {"synthetic ! normalize dtype=uint8 ! batch 4 ! null", "; write u8", NULL},
    {"synthetic ! batch 4 num_workers=2 ! null", "it is \"workers\" here", NULL},
    {"synthetic ! batch 4 num_threads=2 ! null", "write workers=2", NULL},
    {"cifar10 num_workers=2 ! batch 4 ! null", "it is \"workers\" of batch", "threads"},
    {"synthetic ! batch 4 ! train-step num_workers=2 ! null", "it is \"workers\" of batch",
     "\"threads\""},
    {"synthetic ! batch 4 ! train-step workers=2 ! null", "it is \"workers\" of batch", NULL},
    {"synthetic ! batch 4 ! train-step num_threads=2 ! null", "it is \"threads\" here", NULL},
    {"synthetic ! batch 4 learning_rate=1 ! null", "it is \"lr\" of train-step", NULL},
    {"synthetic ! batch 4 ! train-step gradient_accumulation_steps=4 ! null", "accumulate=4",
     "it is \"accumulate\""},
    {"synthetic ! batch 4 ! train-step mlp_ratio=4 ! null", "mlp=1536", "it is \"mlp\""},
    {"synthetic ! batch 4 ! train-step warmup_ratio=0.1 ! null", "counts steps", "it is"},
    {"synthetic ! batch 4 ! train-step steps_per_epoch=9 ! null", "an epoch is", "it is \"steps\""},
    {"synthetic ! batch 4 ! train-step gpu=0 ! null", "device=cuda", "it is"},
    {"synthetic ! batch 4 ! train-step momentum=0.9 ! null", "optimizer=momentum b1=0.9", NULL},
    {"synthetic ! batch 4 ! train-step gradient_checkpointing=true ! null", "it is \"remat\" here",
     NULL},
    {"synthetic ! batch 4 ! train-step remat=true ! null", "; write full", NULL},
    {"synthetic ! batch 4 ! train-step amp=true ! null", "; write usual", NULL},
    {"synthetic ! batch 4 ! train-step schedule=cosine_annealing ! null", "; write cosine", NULL},
    {"synthetic ! batch 4 ! train-step max_grad_norm=1 ! null", "it is \"clip-norm\" here", NULL},
    {"synthetic ! batch 4 ! train-step save_steps=9 ! null", "it is \"checkpoint-every\" here",
     NULL},
    {"cifar10 validation_split=0.1 ! batch 4 ! null", "holdout=5000", "it is \"holdout\""},
    {"cifar10 train=False ! batch 4 ! null", "train=False is split=test", NULL},
    {"cifar10 split=val ! batch 4 ! null", "; write valid", NULL},
    {"synthetic ! ToTensor ! batch 4 ! null", "normalize layout=chw", "preset"},
    {"synthetic ! RandomResizedCrop 32 ! batch 4 ! null", "resized-crop", "0.9"},
    {"synthetic ! NormalizeImage ! batch 4 ! null", "are in [0,1]: normalize mean=0.485", NULL},
    {"synthetic size=32 ! batch 4 ! null", "unknown setting", "\"n\""},
    {"synthetic ! batch 4 ! train-step model=mlp hidden_size=9 ! null", "it is \"hidden\" here",
     NULL},
    {"synthetic ! batch 4 ! train-step eval_steps=9 ! null", "it is \"validate-every\" here", NULL},
    {"synthetic ! batch 4 ! train-step eval_strategy=epoch ! null", "after each epoch", "it is"},
    {"synthetic ! batch 4 ! train-step patience=3 ! null", "it is \"stop-after\" here", NULL},
    {"synthetic ! hflip ! batch 4 ! null", "flip p=1", NULL},
    {"synthetic ! RandomHorizontalFlip ! batch 4 ! null", "flip p=0.5", NULL},
    {"synthetic ! gray ! batch 4 ! null", "grayscale 1", NULL},
    {"synthetic ! RandomGrayscale ! batch 4 ! null", "grayscale 0.1", NULL},
    {"synthetic ! sgd ! batch 4 ! null", "optimizer=sgd", "adamw"},
    {"synthetic ! resnet ! batch 4 ! null", "unknown stage", "model=vit"},
    {"synthetic ! WeightedRandomSampler ! batch 4 ! null", "unknown stage", "mix"},
    {"synthetic ! resize 32 interpolation=bilinear ! batch 4 ! null", "it is \"filter\" here",
     NULL},
    {"synthetic ! resize 32 filter=INTERP_LINEAR ! batch 4 ! null", "; write bilinear", NULL},
    {"synthetic ! resize 32 antialias=true ! batch 4 ! null", "nothing has to be set", NULL},
    {"synthetic ! batch 4 pin_memory=true ! null", "nothing has to be set", NULL},
    {"synthetic ! batch 4 dataloader_drop_last=true ! null", "it is \"drop-remainder\" here", NULL},
    {"synthetic ! batch 1,000 ! null", "; write 1000", "write 1;"},
    {"synthetic ! normalize layout=channels_last ! batch 4 ! null", "; write hwc", NULL},
    {"synthetic num-buffers=9 ! batch 4 ! null", "it is \"n\" here", NULL},
};

static void the_suggestion_of_a_hint_means_the_same(void **state) {
  for (size_t i = 0; i < sizeof meaning / sizeof *meaning; i++) {
    const char *says = reported(meaning[i].text), *no = meaning[i].no;
    if (!strstr(says, meaning[i].says) || (no && strstr(says, no)))
      fail_msg("%s: %s, want \"%s\"%s%s", meaning[i].text, says, meaning[i].says,
               no ? ", not " : "", no ? no : "");
  }
}

/* ---- commands ---- */

enum { COLUMNS = 5 };

/* Calls fn with the columns of each line of `inspect --words` of a kind. */
static void each_line(const char *kind, void (*fn)(char *const *column)) {
  RUN(&p, "inspect", "--words");
  assert_int_equal(p.status, 0);
  char *text = strdup(p.out), *rest = text;
  int n = 0;
  for (char *line; (line = strsep(&rest, "\n")) && *line;) {
    char *column[COLUMNS] = {0};
    for (int i = 0; i < COLUMNS; i++) column[i] = strsep(&line, "\t");
    assert_non_null(column[COLUMNS - 1]);
    if (!strcmp(column[0], kind)) fn(column), n++;
  }
  free(text);
  if (!n) fail_msg("no line is about a %s", kind);
}

/* Splits what to write into words behind argv[0, at). */
static void write_words(char *copy, const char **argv, int at) {
  for (char *word; (word = strsep(&copy, " ")) && at < 14;) argv[at++] = word;
  argv[at] = NULL;
}

static void check_command(char *const *column) {
  char word[64], want[128], copy[128];
  const char *argv[16];
  for (const char *at = column[2]; (at = next_word(at, word, sizeof word));) {
    RUN(&p, word);
    snprintf(want, sizeof want, "; `millrace %s` does that", column[3]);
    if (!strstr(p.err, want)) fail_msg("%s: %s", word, p.err);
  }
  snprintf(copy, sizeof copy, "%s --help", column[3]);
  write_words(copy, argv, 0);
  program_run(&p, argv);
  if (p.status || strncmp(p.out, "usage: millrace ", 16)) fail_msg("%s: %s", column[3], p.err);
  if (strstr(column[3], "--resume")) assert_non_null(strstr(p.out, "--resume"));
}

static void check_flag(char *const *column) {
  char word[64], flag[66], name[64], want[128], with_value[160];
  next_word(column[3], name, sizeof name); /* the flag that is to be written */
  snprintf(with_value, sizeof with_value, "\n  %s", name);
  RUN(&p, column[1], "--help");
  const char *row = strstr(p.out, with_value);
  if (!row) fail_msg("%s has no %s", column[1], name);
  const char *value = strchr(column[3], ' ');
  if (value && !strstr(row, value + 1)) fail_msg("%s: %s is no value", column[1], column[3]);
  bool takes = row[strlen(with_value)] == ' ' && row[strlen(with_value) + 1] != ' ';
  for (const char *at = column[2]; (at = next_word(at, word, sizeof word));) {
    snprintf(flag, sizeof flag, "%s%s", word[1] ? "--" : "-", word);
    RUN(&p, column[1], flag, "x");
    snprintf(want, sizeof want, value ? "; write %s" : "; it is %s here", column[3]);
    if (!strstr(p.err, want)) fail_msg("%s %s: %s", column[1], flag, p.err);
  }
  if (!value && !takes && strcmp(name, "--resume")) fail_msg("%s takes no value", name);
}

static void every_word_for_a_command_leads_to_one(void **state) {
  each_line("command", check_command);
}

static void every_word_for_a_flag_leads_to_one_of_its_command(void **state) {
  each_line("flag", check_flag);
}

/* A hint to a command that does something else is worse than none. */
static void words_without_a_command_of_their_meaning_get_no_hint(void **state) {
  static const char *const word[] = {"tensorboard", "web", "test-only", "deploy"};
  for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
    RUN(&p, word[i]);
    assert_int_equal(p.status, 2);
    if (strstr(p.err, "does that")) fail_msg("%s: %s", word[i], p.err);
  }
}

static void flags_and_settings_of_other_programs_are_spelt_as_here(void **state) {
  static const char *const row[][5] = {
      {"train", "--batch-size", "64", NULL, "no dashes: batch=64"},
      {"train", "--num-workers", "2", NULL, "no dashes: batches.workers=2"},
      {"train", "--split", "test", NULL, "no dashes: data.split=test"},
      {"train", "--gpu", "0", NULL, "write --device cuda"},
      {"train", "output_dir=x", NULL, NULL, "write --run-dir x"},
      {"train", "num_train_epochs=3", NULL, NULL, "it is \"epochs\" here"},
      {"train", "data_dir=x", NULL, NULL, "it is \"data\" here"},
      {"run", "synthetic ! batch 4 ! null", "--batch-size", "3", "no dashes: size=3"},
      {"eval", "x", "--split", "val", "write valid"},
      {"eval", "x", "--dtype", "half", "write f16"},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    program_run(&p, (const char *const[]){row[i][0], row[i][1], row[i][2], row[i][3], NULL});
    assert_int_equal(p.status, 2);
    if (!strstr(p.err, row[i][4])) fail_msg("%s %s: %s", row[i][0], row[i][1], p.err);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_word_for_a_stage_leads_to_text_that_is_accepted),
      cmocka_unit_test(every_word_for_a_setting_leads_to_one_that_takes_its_values),
      cmocka_unit_test(the_suggestion_of_a_hint_means_the_same),
      cmocka_unit_test(every_word_for_a_command_leads_to_one),
      cmocka_unit_test(every_word_for_a_flag_leads_to_one_of_its_command),
      cmocka_unit_test(words_without_a_command_of_their_meaning_get_no_hint),
      cmocka_unit_test(flags_and_settings_of_other_programs_are_spelt_as_here),
  };
  return cmocka_run_group_tests(tests, set_up, NULL);
}
