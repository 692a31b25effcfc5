/* Meshes for devices of a size: along the batch with each zero=, in pipelines, and with the model's
   own parts of parameters.  What a rank holds is planned by the calls of mem --mesh, and the step's
   time by those of explain --mesh.  Nothing runs. */
#include "apps/measure/mem_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "apps/cli/model_arg.h"
#include "apps/cli/so_far.h"
#include "apps/look/mesh_arg.h"
#include "apps/look/pipeline_arg.h"
#include "apps/look/rank_plans.h"
#include "base/text.h"
#include "model/exec/mem_causes.h"
#include "model/train/held.h"

enum { DEVICES_MOST = 256, PARTS_USUAL = 8, CHOICES_MOST = 512 };

/* A way to train on the devices. */
typedef struct choice {
  mr_mesh_t mesh;
  int zero, stages;
  int64_t parts;   /* of a batch; 0: it is not divided into such */
  char name[160];  /* "data=8 zero=1" */
  char words[240]; /* of train */
  int rank;        /* the fullest, of which are: */
  size_t bytes;    /* in all; 0: not planned, as `why` says */
  int n_held;
  mr_held_t held[MR_HELD_MOST];
  mr_mem_causes_t causes;
  double step_s, waits, bubble; /* the share of it that the first rank waits; by the schedule */
  char why[240];                /* that it is none of those proposed; "": it is */
} choice_t;

typedef struct search {
  const mr_args_t *args;
  int devices;
  size_t memory; /* of each */
  mr_rates_t rates;
  const char *table;
  int64_t batch;
  mr_params_t whole; /* the model's parameters */
  int n;
  choice_t *choice; /* heap [CHOICES_MOST] */
  int64_t planned;  /* ranks so far */
  mr_so_far_t so_far;
} search_t;

/* ---- what may be tried ---- */

/* Adds a choice; `model`: ranks that share an array's parts, of a stage if there are stages. */
static void add_choice(search_t *s, int model, int zero, int stages, int64_t parts) {
  char mesh[MR_MESH_TEXT];
  if (s->n == CHOICES_MOST) return;
  choice_t *c = &s->choice[s->n++];
  *c = (choice_t){.zero = zero, .stages = stages, .parts = parts};
  snprintf(mesh, sizeof mesh, model > 1 ? "data=%d,model=%d" : "data=%d",
           s->devices / (model > 1 ? model : 1), model);
  mr_mesh_parse(mesh, s->devices, &c->mesh, NULL);
  int at = snprintf(c->name, sizeof c->name, "%s", mesh);
  int w = snprintf(c->words, sizeof c->words, "--mesh %s", mesh);
  if (stages) {
    at += snprintf(c->name + at, sizeof c->name - (size_t)at, " pipeline=%d microbatches=%" PRId64,
                   stages, parts);
    w += snprintf(c->words + w, sizeof c->words - (size_t)w,
                  " train.pipeline=%d train.microbatches=%" PRId64, stages, parts);
    if (zero) snprintf(c->name + at, sizeof c->name - (size_t)at, " zero=%d", zero);
    if (zero) snprintf(c->words + w, sizeof c->words - (size_t)w, " train.zero=%d", zero);
  } else {
    snprintf(c->name + at, sizeof c->name - (size_t)at, " zero=%d", zero);
    w += snprintf(c->words + w, sizeof c->words - (size_t)w, " train.zero=%d", zero);
    if (parts && parts != PARTS_USUAL)
      snprintf(c->words + w, sizeof c->words - (size_t)w, " train.ordered=%" PRId64, parts);
  }
}

/* The parts of a batch that ranks share: 8, or the power of two that has one for each. */
static int64_t parts_for(int ranks) {
  int64_t parts = PARTS_USUAL;
  while (parts < ranks) parts *= 2;
  return parts;
}

/* Stages have shares of slots whatever zero= is, and with 3 of values. */
static void add_pipelines(search_t *s, int model, int stages, int64_t parts) {
  add_choice(s, model, 0, stages, parts);
  add_choice(s, model, MR_ZERO_MOST, stages, parts);
}

static void list_choices(search_t *s) {
  for (int zero = 0; zero <= MR_ZERO_MOST; zero++) add_choice(s, 1, zero, 0, parts_for(s->devices));
  for (int k = 2; k <= s->devices; k++) {
    if (s->devices % k) continue;
    for (int64_t parts = parts_for(s->devices / k), i = 0; i < 3; i++, parts *= 2)
      if (k <= MR_PIPELINE_STAGES && parts <= MR_PIPELINE_PARTS && s->batch % parts == 0)
        add_pipelines(s, 1, k, parts);
    for (int zero = 0; zero <= (k < s->devices ? MR_ZERO_MOST : 0); zero++)
      add_choice(s, k, zero, 0, 0);
    int data = s->devices / k; /* stages of columns and rows, with microbatches alone */
    for (int stages = 2; stages <= data && stages <= MR_PIPELINE_STAGES; stages++) {
      int64_t parts = parts_for(data / stages);
      if (data % stages == 0 && parts <= MR_PIPELINE_PARTS && s->batch % parts == 0)
        add_pipelines(s, k, stages, parts);
    }
  }
}

/* ---- planning ---- */

/* Counts what a rank holds into c if that is more than what others do. */
static mr_err_t count_rank(const search_t *s, choice_t *c, mr_model_job_t *job, int rank,
                           mr_diag_t *diag) {
  mr_params_t list = {0};
  mr_exec_t *x = NULL;
  mr_held_t held[MR_HELD_MOST];
  mr_mem_causes_t causes;
  job->train.rank = rank;
  mr_err_t e = mr_train_step_plan_rank(&job->model.plan.loss, &job->train, &list, &x, diag);
  const mr_held_of_t of = {.exec = x,
                           .train = &job->train,
                           .params = &list,
                           .whole = job->train.mesh && c->stages ? &s->whole : NULL,
                           .step = true};
  const char *update = job->train.optim.def->name;
  if (e >= 0)
    e = mr_mem_causes_find(&causes, x,
                           &(mr_mem_parts_t){mr_train_loss_of(mr_exec_fn(x)), update,
                                             MR_OPTIM_POSTED, MR_OPTIM_GATHERED},
                           diag);
  if (e >= 0) {
    int n = mr_train_held(&of, held);
    size_t bytes = mr_exec_peak_bytes(x) + causes.constants + causes.outputs;
    for (int i = 0; i < n; i++) bytes += held[i].bytes;
    if (bytes > c->bytes) {
      c->bytes = bytes, c->rank = rank, c->n_held = n, c->causes = causes;
      memcpy(c->held, held, sizeof held);
    }
  }
  mr_exec_destroy(x);
  mr_params_fini(&list);
  return e;
}

/* Sets job's step to that of the choice. */
static mr_err_t become_choice(choice_t *c, mr_model_job_t *job, mr_diag_t *diag) {
  mr_train_config_t *t = &job->train;
  mr_pipeline_plan_t plan;
  t->pipeline = (mr_pipeline_t){.stages = 0};
  t->mesh = NULL, t->ordered = c->parts, t->rank = 0;
  mr_mesh_set_ranks(&c->mesh, NULL, c->zero, job);
  if (!c->stages) return mr_train_parts_check(t, diag);
  const mr_pipeline_want_t want = {.stages = c->stages};
  MR_TRY(mr_pipeline_set(&want, c->parts, job, &plan, diag));
  int parts = mr_optim_rank_from((int)c->parts, mr_rank_plans_sharers(t) / c->stages, 1);
  c->bubble = (double)(c->stages - 1) / parts;
  return MR_OK;
}

/* From one rank of a choice to the next that is not like it: shares are not alike, nor are stages,
   but the parts of a stage. */
static int next_unlike(const search_t *s, const choice_t *c) {
  if (c->stages) return c->mesh.n > 1 ? c->mesh.size[1] : 1;
  return !c->zero && (!c->parts || c->parts % s->devices == 0) ? s->devices : 1;
}

/* Plans the ranks that are unlike, and predicts its time. */
static mr_err_t plan_choice(search_t *s, choice_t *c, mr_model_job_t *job, mr_diag_t *diag) {
  mr_rank_plans_t p;
  MR_TRY(become_choice(c, job, diag));
  for (int r = 0; r < s->devices; r += next_unlike(s, c)) {
    MR_TRY(count_rank(s, c, job, r, diag));
    mr_so_far(&s->so_far, ++s->planned);
  }
  mr_err_t e = mr_rank_plans(job, &c->mesh, &s->rates, &p, diag);
  if (e >= 0) c->step_s = mr_rank_plans_step(&p), c->waits = mr_rank_plans_waits(&p, 0);
  mr_rank_plans_fini(&p);
  return e;
}

static void print_size(size_t bytes, char text[24]) {
  static const char *const unit[] = {"B", "kB", "MB", "GB", "TB"};
  double v = (double)bytes;
  int u = 0;
  for (; v >= 1000 && u < 4; u++) v /= 1000;
  snprintf(text, 24, "%.*f %s", v < 10 && u ? 2 : v < 100 && u ? 1 : 0, v, unit[u]);
}

/* A choice that does not go with the model is none of those proposed, with its reason; only a lack
   of memory ends the search. */
static mr_err_t try_choice(search_t *s, choice_t *c, mr_model_job_t *job, mr_diag_t *diag) {
  mr_diag_t why = {0};
  char needs[24], has[24];
  mr_err_t e = c->mesh.n > 1 && !job->model.def->partition
                   ? mr_fail(&why, MR_ERR_CONFIG, "model %s has no table of parts of parameters",
                             job->model.def->name)
                   : plan_choice(s, c, job, &why);
  if (e == MR_ERR_NOMEM) return mr_diag_relay(diag, e, &why);
  if (e < 0) {
    c->bytes = 0;
    snprintf(c->why, sizeof c->why, "%.239s", why.text);
  } else if (c->bytes > s->memory) {
    print_size(c->bytes, needs), print_size(s->memory, has);
    snprintf(c->why, sizeof c->why, "%s, %s asked", needs, has);
  }
  return MR_OK;
}

/* ---- the report ---- */

static bool is_proposed(const choice_t *c) { return !*c->why; }

static int by_time(const void *a, const void *b) {
  const choice_t *x = a, *y = b;
  if (is_proposed(x) != is_proposed(y)) return is_proposed(x) ? -1 : 1;
  if (!is_proposed(x)) return strcmp(x->name, y->name);
  if (x->step_s != y->step_s) return x->step_s < y->step_s ? -1 : 1;
  if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
  return strcmp(x->name, y->name);
}

/* The bytes of what is held whose names begin so. */
static size_t held_of(const choice_t *c, const char *begin) {
  size_t bytes = 0;
  for (int i = 0; i < c->n_held; i++)
    if (!strncmp(c->held[i].name, begin, strlen(begin))) bytes += c->held[i].bytes;
  return bytes;
}

static size_t arena_of(const choice_t *c) {
  size_t bytes = 0;
  for (int k = 0; k < MR_MEM_CAUSES; k++) bytes += c->causes.bytes[k];
  return bytes;
}

static void print_choice(const choice_t *c) {
  char size[5][24];
  size_t params = held_of(c, "parameters") + held_of(c, "master"), inputs = held_of(c, "inputs");
  size_t all = 0;
  for (int i = 0; i < c->n_held; i++) all += c->held[i].bytes;
  print_size(c->bytes, size[0]), print_size(params, size[1]);
  print_size(all - params - inputs, size[2]), print_size(inputs, size[3]);
  print_size(arena_of(c), size[4]);
  printf("%10.3f %5.1f%% %5.1f%% %9s %9s %9s %9s %9s  %s\n", 1e3 * c->step_s, 100 * c->waits,
         100 * c->bubble, size[0], size[1], size[2], size[3], size[4], c->name);
}

static void print_proposals(const search_t *s) {
  char has[24];
  int i = 0;
  print_size(s->memory, has);
  printf("%d devices of %s, a batch of %" PRId64 "; the bytes are those of the fullest rank\n",
         s->devices, has, s->batch);
  printf("times by table %s: %s\n", s->table, s->rates.source);
  printf("%10s %6s %6s %9s %9s %9s %9s %9s  %s\n", "step ms", "waits", "bubble", "a rank", "params",
         "optimizer", "batch", "arena", "mesh");
  for (; i < s->n && is_proposed(&s->choice[i]); i++) print_choice(&s->choice[i]);
  if (i)
    printf("to train on the first, with the model and batch of this plan: millrace train %s\n",
           s->choice[0].words);
  if (i < s->n) printf("not these:\n");
  for (; i < s->n; i++) printf("  %s: %s\n", s->choice[i].name, s->choice[i].why);
}

static cJSON *choice_json(const choice_t *c) {
  char mesh[MR_MESH_TEXT];
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, "mesh", mr_mesh_text(&c->mesh, mesh));
  cJSON_AddNumberToObject(o, "zero", c->zero);
  cJSON_AddNumberToObject(o, "pipeline", c->stages);
  cJSON_AddNumberToObject(o, "parts", (double)c->parts);
  cJSON_AddStringToObject(o, "train", c->words);
  if (*c->why) cJSON_AddStringToObject(o, "why", c->why);
  if (!c->bytes) return o;
  cJSON_AddNumberToObject(o, "seconds", c->step_s);
  cJSON_AddNumberToObject(o, "waits", c->waits);
  cJSON_AddNumberToObject(o, "bubble", c->bubble);
  cJSON_AddNumberToObject(o, "rank", c->rank);
  cJSON_AddNumberToObject(o, "bytes", (double)c->bytes);
  cJSON *held = cJSON_AddObjectToObject(o, "held"), *arena = cJSON_AddObjectToObject(o, "arena");
  for (int i = 0; i < c->n_held; i++)
    cJSON_AddNumberToObject(held, c->held[i].name, (double)c->held[i].bytes);
  cJSON_AddNumberToObject(held, "constants outside the arena", (double)c->causes.constants);
  cJSON_AddNumberToObject(held, "outputs", (double)c->causes.outputs);
  for (int k = 0; k < MR_MEM_CAUSES; k++)
    cJSON_AddNumberToObject(arena, mr_mem_cause_name((mr_mem_cause_t)k),
                            (double)c->causes.bytes[k]);
  return o;
}

static mr_err_t print_proposals_json(const search_t *s, mr_diag_t *diag) {
  cJSON *o = cJSON_CreateObject();
  cJSON_AddNumberToObject(o, "devices", s->devices);
  cJSON_AddNumberToObject(o, "memory_bytes", (double)s->memory);
  cJSON_AddNumberToObject(o, "batch", (double)s->batch);
  cJSON_AddStringToObject(o, "rates", s->table);
  cJSON_AddStringToObject(o, "source", s->rates.source);
  cJSON *fit = cJSON_AddArrayToObject(o, "meshes"), *others = cJSON_AddArrayToObject(o, "others");
  for (int i = 0; i < s->n; i++)
    cJSON_AddItemToArray(is_proposed(&s->choice[i]) ? fit : others, choice_json(&s->choice[i]));
  char *text = cJSON_Print(o);
  cJSON_Delete(o);
  if (!text) return mr_no_memory(diag, "the JSON of mem");
  puts(text);
  free(text);
  return MR_OK;
}

/* ---- the command ---- */

/* "8x80GB". */
static mr_err_t read_devices(search_t *s, mr_diag_t *diag) {
  const char *text = mr_args_text(s->args, "--plan");
  char *end;
  long n = strtol(text, &end, 10);
  if (*text < '0' || *text > '9' || *end != 'x' || n < 2 || n > DEVICES_MOST)
    return mr_fail(
        diag, MR_ERR_USAGE,
        "mem: --plan %.40s: expected devices in [2,%d] and the memory of each, as 8x80GB", text,
        DEVICES_MOST);
  s->devices = (int)n;
  mr_err_t e = mr_bytes_parse("mem: --plan", end + 1, &s->memory, diag);
  return e == MR_ERR_CONFIG ? diag->code = MR_ERR_USAGE : e;
}

/* What the plan chooses, or what is not of ranks. */
static mr_err_t refuse_beside_plan(const mr_args_t *a, mr_diag_t *diag) {
  static const char *const flag[] = {
      "--mesh",    "--zero",     "--partition",         "--pipeline",     "--stages",
      "--ordered", "--fit",      "--accumulate",        "--microbatches", "--rank",
      "--pprof",   "--timeline", "--pipeline-schedule", "--fp8"};
  for (size_t i = 0; i < sizeof flag / sizeof *flag; i++)
    if (mr_args_text(a, flag[i]))
      return mr_fail(diag, MR_ERR_USAGE, "mem: %s: expected no --plan beside it", flag[i]);
  return MR_OK;
}

/* Tries all choices, and shows how far it is: of many devices there are many ranks to plan. */
static mr_err_t try_choices(search_t *s, mr_model_job_t *job, mr_diag_t *diag) {
  mr_err_t e = MR_OK;
  int64_t ranks = 0;
  for (int i = 0; i < s->n; i++) ranks += s->devices / next_unlike(s, &s->choice[i]);
  s->so_far = mr_so_far_begin("mem: rank", 1, ranks);
  for (int i = 0; e >= 0 && i < s->n; i++) {
    int64_t end = s->planned + s->devices / next_unlike(s, &s->choice[i]);
    e = try_choice(s, &s->choice[i], job, diag);
    s->planned = end;
  }
  mr_so_far_end(&s->so_far);
  return e;
}

static mr_err_t refuse_all(const search_t *s, mr_diag_t *diag) {
  const choice_t *least = NULL;
  char needs[24], has[24];
  for (int i = 0; i < s->n; i++)
    if (s->choice[i].bytes && (!least || s->choice[i].bytes < least->bytes)) least = &s->choice[i];
  if (!least)
    return mr_fail(diag, MR_ERR_CONFIG, "mem: --plan: no mesh goes with this model: %s: %s",
                   s->choice[0].name, s->choice[0].why);
  print_size(least->bytes, needs), print_size(s->memory, has);
  return mr_fail(diag, MR_ERR_NOMEM,
                 "mem: --plan: no mesh fits: %s needs least, %s of the %s of a device; want a "
                 "smaller --batch, --remat full or more devices",
                 least->name, needs, has);
}

mr_err_t mr_mem_plan(const mr_args_t *a, mr_diag_t *diag) {
  search_t s = {.args = a};
  mr_model_job_t job;
  bool named = a->n_words && !strchr(a->word[0], '=');
  MR_TRY(refuse_beside_plan(a, diag));
  MR_TRY(read_devices(&s, diag));
  if (named && strcmp(a->word[0], "step"))
    return mr_fail(diag, MR_ERR_USAGE, "mem: --plan: %.40s, expected function step", a->word[0]);
  MR_TRY(mr_rates_arg(a, &s.table, &s.rates, diag));
  mr_err_t e = mr_model_arg(a, named, &job, diag);
  if (e >= 0 && !(s.choice = calloc(CHOICES_MOST, sizeof *s.choice)))
    e = mr_no_memory(diag, "meshes to choose from");
  s.batch = job.train.batch;
  if (e >= 0) e = mr_loss_params_list(&job.model.plan.loss, &s.whole, diag);
  if (e >= 0) list_choices(&s);
  if (e >= 0) e = try_choices(&s, &job, diag);
  job.train.mesh = NULL; /* a choice's, which ends here */
  if (e >= 0) qsort(s.choice, (size_t)s.n, sizeof *s.choice, by_time);
  if (e >= 0 && mr_args_text(a, "--json"))
    e = print_proposals_json(&s, diag);
  else if (e >= 0)
    print_proposals(&s);
  if (e >= 0 && !is_proposed(&s.choice[0])) e = refuse_all(&s, diag);
  mr_params_fini(&s.whole);
  free(s.choice);
  mr_model_job_fini(&job);
  return e;
}
