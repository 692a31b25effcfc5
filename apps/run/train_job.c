/* What ranks tell each other before and after a run goes over a communicator of its own, in
   collectives of bytes.  Rank 0's texts go to all, and each compares its own with them: the first
   that differs says so by mr_train_job_agree, and none begins. */
#include "apps/run/train_job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "apps/run/resume.h"
#include "apps/run/versions.h"
#include "base/isa.h"
#include "base/ledger.h"
#include "base/safetensors.h"
#include "base/shown.h"
#include "base/text.h"
#include "base/xio.h"
#include "model/exec/device.h"
#include "model/exec/process_ranks.h"
#include "ranks/job.h"

enum {
  COME_S = 300, /* for all processes to be started */
  LATE_S = 600, /* for a rank that is heard of to come to a call */
  SILENT_S = 6, /* for a rank that is not heard of */
  TEXT_MOST = 1 << 28,
  PIECE = 1 << 24 /* bytes of a file that are sent at a time */
};

/* How a rank has done. */
typedef struct outcome {
  int32_t code, value;
  char text[1024];
} outcome_t;

struct mr_train_job {
  mr_launch_t launch;
  outcome_t *outcome; /* [size] */
  mr_job_t *job;
  mr_collect_t *talk;
  bool known;     /* all ranks know of this one's failure */
  int checkpoint; /* descriptor of the copy in memory; -1: none */
  char prefix[32];
};

static mr_job_t *job_of_process; /* for doing, which stages call */

static void job_doing(const char *what, int64_t step, mr_pace_t pace) {
  mr_job_doing(job_of_process, what, step, pace);
}

static void notice_of_rank(void *prefix, const char *text) {
  fprintf(stderr, "millrace: %s%s\n", (const char *)prefix, text);
}

bool mr_train_job_follows(const mr_train_job_t *j) { return j && j->launch.rank > 0; }
int mr_train_job_size(const mr_train_job_t *j) { return j ? j->launch.size : 1; }

/* ---- talking ---- */

static mr_err_t read_job_failure(const mr_train_job_t *j, mr_diag_t *diag) {
  int missing;
  return mr_job_collect(j->job)->failed(j->talk, &missing, diag);
}

/* Sends bytes of rank 0 to all others. */
static mr_err_t share_bytes(mr_train_job_t *j, void *data, size_t n, mr_diag_t *diag) {
  const mr_collect_ops_t *ops = mr_job_collect(j->job);
  if (j->launch.rank) ops->receive(j->talk, 0, n, data);
  for (int r = 1; r < j->launch.size && !j->launch.rank; r++) ops->send(j->talk, r, n, data);
  return read_job_failure(j, diag);
}

/* Gives rank 0's text to all: *text is then heap; NULL stays NULL on all. */
static mr_err_t share_text(mr_train_job_t *j, const char *own, char **text, mr_diag_t *diag) {
  int64_t n = own ? (int64_t)strlen(own) : -1;
  *text = NULL;
  MR_TRY(share_bytes(j, &n, sizeof n, diag));
  if (n < 0) return MR_OK;
  if (n > TEXT_MOST) return mr_fail(diag, MR_ERR_DATA, "a text of %lld bytes", (long long)n);
  if (!(*text = calloc(1, (size_t)n + 1))) return mr_no_memory(diag, "a text of the run");
  if (!j->launch.rank) memcpy(*text, own, (size_t)n);
  return n ? share_bytes(j, *text, (size_t)n, diag) : MR_OK;
}

/* A sentence that names its rank is not given another name. */
static mr_err_t fail_as_rank(int rank, outcome_t *o, mr_diag_t *diag) {
  o->text[sizeof o->text - 1] = 0;
  if (!strncmp(o->text, "rank ", 5) || mr_names_rank(o->text))
    return mr_fail(diag, (mr_err_t)o->code, "%s", o->text);
  return mr_fail(diag, (mr_err_t)o->code, "rank %d: %s", rank, o->text);
}

mr_err_t mr_train_job_agree(mr_train_job_t *j, mr_err_t e, int *value, mr_diag_t *diag) {
  outcome_t mine = {e < 0 ? e : MR_OK, value ? *value : 0, ""};
  if (!j) return e;
  if (e < 0) snprintf(mine.text, sizeof mine.text, "%s", diag->text);
  mr_job_collect(j->job)->all_gather(j->talk, sizeof mine, &mine, j->outcome);
  mr_err_t failed = e < 0 ? e : read_job_failure(j, diag);
  j->known = failed >= 0 || e < 0;
  for (int r = 0; r < j->launch.size && failed >= 0; r++)
    if (j->outcome[r].code < 0) failed = fail_as_rank(r, &j->outcome[r], diag);
  j->known = failed < 0 && j->known;
  if (value && failed >= 0) *value = j->outcome[0].value;
  return failed;
}

mr_err_t mr_train_job_most(mr_train_job_t *j, mr_err_t e, int *value, mr_diag_t *diag) {
  int first = *value;
  if (!j) return e;
  MR_TRY(mr_train_job_agree(j, e, &first, diag));
  for (int r = 0; r < j->launch.size; r++)
    if (j->outcome[r].value > *value) *value = j->outcome[r].value;
  return MR_OK;
}

/* ---- what must not differ ---- */

/* A setting given on a command line, as it may be shown. */
static char *shown_word(const char *word) {
  char name[64];
  const char *eq = strchr(word, '='), *dot = strchr(word, '.');
  if (!eq) return strdup(word);
  const char *begin = dot && dot < eq ? dot + 1 : word;
  snprintf(name, sizeof name, "%.*s", (int)(eq - begin), begin);
  const mr_registry_t *reg = mr_all_stages();
  const mr_opt_t *o = NULL;
  for (int i = 0; i < reg->n; i++) {
    const mr_opt_t *found = mr_stage_def_opt(mr_stage_def_usual(reg->def[i]), name);
    if (found && (!o || found->type == MR_OPT_SECRET)) o = found;
  }
  return mr_shown(o, eq + 1);
}

static uint64_t hash_of_text(const char *text) {
  uint64_t h = 1;
  for (; *text; text++) h = mr_hash_mix(h, (unsigned char)*text);
  return h;
}

/* A line "NAME<tab>HASH<tab>SHOWN": secrets are compared by their hash. */
static void put_fact(FILE *f, const char *name, const char *value, char *shown) {
  fprintf(f, "%s\t%016llx\t%s\n", name, (unsigned long long)hash_of_text(value),
          shown ? shown : "(hidden)");
  free(shown);
}

/* The lines of the graph's file, which may hold secrets: by their numbers. */
static void put_graph(FILE *f, const char *file) {
  char *text, name[32];
  const char *origin;
  mr_diag_t why = {0};
  int n = 0;
  if (mr_graph_text(file, &text, &origin, &why) < 0) {
    put_fact(f, "--graph", why.text, strdup(why.text));
    return;
  }
  for (char *at = text, *end; (end = strchr(at, '\n')) || *at; at = end + 1) {
    if (end) *end = 0;
    snprintf(name, sizeof name, "graph line %d", ++n);
    put_fact(f, name, at, strdup("other words"));
    if (!end) break;
  }
  free(text);
}

/* What decides numbers in this process, besides data. */
static char *facts_of_process(const mr_args_t *a) {
  static const char *const variables[] = {"MILLRACE_MATMUL_PRECISION", "MILLRACE_ISA"};
  mr_text_out_t out;
  FILE *f = mr_text_out_open(&out);
  char name[80];
  if (!f) return NULL;
  put_fact(f, "versions", mr_versions_line(), strdup(mr_versions_line()));
  put_fact(f, "instruction set", mr_isa_name(mr_isa()), strdup(mr_isa_name(mr_isa())));
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
    const char *value = getenv(variables[i]);
    put_fact(f, variables[i], value ? value : "", strdup(value ? value : "none"));
  }
  for (int i = 0; a->command->flags[i].name; i++) {
    const char *flag = a->command->flags[i].name;
    if (!strcmp(flag, "--graph") && a->flag[i]) put_graph(f, a->flag[i]);
    if (!strcmp(flag, "--graph") || !strcmp(flag, "--trace")) continue;
    put_fact(f, flag, a->flag[i] ? a->flag[i] : "none",
             strdup(!a->flag[i]    ? "none"
                    : !*a->flag[i] ? "given"
                                   : a->flag[i]));
  }
  for (int i = 0; i < a->n_words; i++) {
    snprintf(name, sizeof name, "%.*s", (int)strcspn(a->word[i], "="), a->word[i]);
    put_fact(f, name, a->word[i], shown_word(a->word[i]));
  }
  return mr_text_out_close(&out, f, NULL);
}

/* The parts of a line of facts, of which `line` is cut. */
typedef struct fact {
  const char *name, *hash, *shown;
} fact_t;

static fact_t read_fact(char *line) {
  fact_t f = {line, "", ""};
  char *tab = strchr(line, '\t'), *next = tab ? strchr(tab + 1, '\t') : NULL;
  if (tab) *tab = 0, f.hash = tab + 1;
  if (next) *next = 0, f.shown = next + 1;
  return f;
}

static mr_err_t refuse_fact(const mr_train_job_t *j, const fact_t *own, const fact_t *first,
                            mr_diag_t *diag) {
  bool same_name = own && first && !strcmp(own->name, first->name);
  if (same_name)
    return mr_fail(diag, MR_ERR_USAGE,
                   "rank %d has %s = %.200s, and rank 0 has %.200s: want the same on all ranks",
                   j->launch.rank, own->name, own->shown, first->shown);
  return mr_fail(diag, MR_ERR_USAGE,
                 "rank %d has %s%s%.200s, and rank 0 has %s%s%.200s: want the "
                 "same command line on all ranks",
                 j->launch.rank, own ? own->name : "nothing more", own ? " = " : "",
                 own ? own->shown : "", first ? first->name : "nothing more", first ? " = " : "",
                 first ? first->shown : "");
}

/* Both texts are cut up. */
static mr_err_t compare_facts(const mr_train_job_t *j, char *own, char *first, mr_diag_t *diag) {
  char *save[2];
  char *a = strtok_r(own, "\n", &save[0]), *b = strtok_r(first, "\n", &save[1]);
  for (; a || b; a = strtok_r(NULL, "\n", &save[0]), b = strtok_r(NULL, "\n", &save[1])) {
    fact_t x = {0}, y = {0};
    if (a) x = read_fact(a);
    if (b) y = read_fact(b);
    if (!a || !b || strcmp(x.name, y.name) || strcmp(x.hash, y.hash))
      return refuse_fact(j, a ? &x : NULL, b ? &y : NULL, diag);
  }
  return MR_OK;
}

static mr_err_t compare_processes(mr_train_job_t *j, const mr_args_t *a, mr_diag_t *diag) {
  char *own = facts_of_process(a), *first = NULL;
  mr_err_t e = share_text(j, own ? own : "", &first, diag);
  if (e >= 0 && !own) e = mr_no_memory(diag, "the command line");
  if (e >= 0) e = compare_facts(j, own, first, diag);
  free(own), free(first);
  return mr_train_job_agree(j, e, NULL, diag);
}

mr_err_t mr_train_job_same_data(mr_train_job_t *j, const char *facts, mr_diag_t *diag) {
  char *first = NULL, *own = NULL, *save = NULL, there[300];
  if (!j) return MR_OK;
  mr_err_t e = share_text(j, facts, &first, diag);
  if (e >= 0 && !(own = strdup(facts ? facts : ""))) e = mr_no_memory(diag, "facts of the data");
  for (char *line = e >= 0 ? strtok_r(own, "\n", &save) : NULL; line && e >= 0;
       line = strtok_r(NULL, "\n", &save)) {
    char *value = strchr(line, ' ');
    if (!value) continue;
    *value++ = 0;
    if (!mr_data_facts_of(first, line, there, sizeof there)) continue;
    if (strncmp(value, there, sizeof there - 1))
      e = mr_fail(diag, MR_ERR_DATA,
                  "stage %s of rank %d reads other data than rank 0's: %.200s, and there %.200s",
                  line, j->launch.rank, value, there);
  }
  free(first), free(own);
  return e;
}

/* ---- opening ---- */

/* A launcher that binds its ranks has given each its own processors already. */
static int rank_threads(const mr_launch_t *l) {
  int mine = mr_device_processors(mr_device_default());
  long all = sysconf(_SC_NPROCESSORS_ONLN);
  bool bound = mine > 0 && mine < all;
  int n = bound || l->local_size < 1 ? mine : mine / l->local_size;
  return n > 0 ? n : 1;
}

static mr_err_t begin_as_one(mr_train_job_t *j, const mr_args_t *a, mr_diag_t *diag) {
  const mr_collect_ops_t *ops = mr_job_collect(j->job);
  MR_TRY(ops->create(mr_device_default(), "run", j->launch.rank, j->launch.size, LATE_S, &j->talk,
                     diag));
  job_of_process = j->job;
  mr_job_doing(j->job, "prepares", 1, MR_PACE_OPEN);
  mr_process_ranks_set(&(mr_process_ranks_t){.ops = ops,
                                             .rank = j->launch.rank,
                                             .size = j->launch.size,
                                             .ops_of = mr_job_collect_of,
                                             .threads = rank_threads(&j->launch),
                                             .limit_s = LATE_S,
                                             .doing = job_doing});
  mr_process_ranks_pause(true);
  mr_device_prefer(j->launch.local_rank > 0 ? j->launch.local_rank : 0);
  snprintf(j->prefix, sizeof j->prefix, "rank %d: ", j->launch.rank);
  if (j->launch.rank) mr_notice_to(notice_of_rank, j->prefix);
  return compare_processes(j, a, diag);
}

mr_err_t mr_train_job_open(const mr_args_t *a, mr_train_job_t **out, mr_diag_t *diag) {
  mr_launch_t l;
  *out = NULL;
  MR_TRY(mr_launch_of_process(&l, diag));
  if (l.size <= 1) return MR_OK;
  mr_train_job_t *j = calloc(1, sizeof *j);
  if (!j) return mr_no_memory(diag, "a job of %d ranks", l.size);
  const mr_job_cfg_t cfg = {.limit_s = COME_S, .silent_s = SILENT_S};
  j->launch = l, j->checkpoint = -1;
  mr_err_t e = MR_OK;
  if (!(j->outcome = calloc((size_t)l.size, sizeof *j->outcome)))
    e = mr_no_memory(diag, "a job of %d ranks", l.size);
  if (e >= 0) e = mr_job_open(&l, &cfg, &j->job, diag);
  if (e < 0) {
    free(j->outcome), free(j);
    return e;
  }
  if ((e = begin_as_one(j, a, diag)) < 0) {
    mr_train_job_close(j, e, diag);
    return e;
  }
  return *out = j, MR_OK;
}

/* ---- sharing the run ---- */

/* Takes rank 0's checkpoint into memory, and sets at->path to that. */
static mr_err_t take_checkpoint(mr_train_job_t *j, int64_t size, mr_resume_point_t *at,
                                mr_diag_t *diag) {
  j->checkpoint = memfd_create("millrace-checkpoint", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  void *map = MAP_FAILED;
  if (j->checkpoint >= 0 && ftruncate(j->checkpoint, size) == 0)
    map = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, j->checkpoint, 0);
  mr_err_t e =
      map == MAP_FAILED ? mr_no_memory(diag, "a checkpoint of %lld bytes", (long long)size) : MR_OK;
  e = mr_train_job_agree(j, e, NULL, diag);
  for (int64_t i = 0; i < size && e >= 0; i += PIECE)
    e = share_bytes(j, (char *)map + i, (size_t)(size - i < PIECE ? size - i : PIECE), diag);
  if (map != MAP_FAILED) munmap(map, (size_t)size);
  fcntl(j->checkpoint, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE); /* it is mapped, not copied */
  snprintf(at->path, sizeof at->path, "/proc/self/fd/%d", j->checkpoint);
  return e;
}

static mr_err_t give_checkpoint(mr_train_job_t *j, FILE *f, int64_t size, const char *path,
                                mr_diag_t *diag) {
  char *piece = malloc(PIECE);
  mr_err_t e = piece ? MR_OK : mr_no_memory(diag, "a checkpoint's bytes");
  e = mr_train_job_agree(j, e, NULL, diag);
  for (int64_t i = 0; i < size && e >= 0; i += PIECE) {
    size_t n = (size_t)(size - i < PIECE ? size - i : PIECE);
    if (fread(piece, 1, n, f) != n)
      e = mr_fail(diag, MR_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
    else
      e = share_bytes(j, piece, n, diag);
  }
  free(piece);
  return e;
}

/* Opens rank 0's checkpoint as one file: of several, in memory, what they are together. */
static mr_err_t open_whole(const char *path, FILE **f, mr_diag_t *diag) {
  bool sliced;
  int fd = -1;
  MR_TRY(mr_safetensors_sliced(path, &sliced, diag));
  if (sliced && (fd = memfd_create("millrace-merged", MFD_CLOEXEC)) < 0)
    return mr_no_memory(diag, "a checkpoint in memory");
  mr_err_t e = sliced ? mr_train_state_merge(path, fd, path, NULL, diag) : MR_OK;
  if (e >= 0 && !(*f = sliced ? fdopen(fd, "r+") : mr_open_regular(path)))
    e = mr_fail(diag, MR_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
  if (e < 0 && fd >= 0) close(fd);
  if (e >= 0) rewind(*f);
  return e;
}

static mr_err_t share_checkpoint(mr_train_job_t *j, mr_resume_point_t *at, mr_diag_t *diag) {
  struct stat st = {0};
  FILE *f = NULL;
  mr_err_t e = MR_OK;
  if (!j->launch.rank && *at->path) {
    e = open_whole(at->path, &f, diag);
    if (e >= 0 && fstat(fileno(f), &st) < 0)
      e = mr_fail(diag, MR_ERR_IO, "%s: cannot be read: %s", at->path, strerror(errno));
  }
  int64_t size = st.st_size;
  e = mr_train_job_agree(j, e, NULL, diag);
  if (e >= 0) e = share_bytes(j, &size, sizeof size, diag);
  at->path[0] = j->launch.rank ? 0 : at->path[0];
  if (e >= 0 && size > 0)
    e = j->launch.rank ? take_checkpoint(j, size, at, diag)
                       : give_checkpoint(j, f, size, at->path, diag);
  if (f) fclose(f);
  if (e >= 0 && j->launch.rank && size > 0) e = mr_train_state_progress(at->path, &at->at, diag);
  return mr_train_job_agree(j, e, NULL, diag);
}

static mr_err_t share_part(mr_train_job_t *j, mr_run_dir_t *r, mr_diag_t *diag) {
  mr_history_part_t mine = {0}, all = {0};
  char *graph = NULL, *settings = NULL, *carry = NULL, *path = NULL, *origin = NULL;
  mr_err_t e = j->launch.rank ? MR_OK : mr_run_dir_part(r, 0, &mine, diag);
  if ((e = mr_train_job_agree(j, e, NULL, diag)) >= 0) e = share_text(j, mine.graph, &graph, diag);
  if (e >= 0) e = share_text(j, mine.settings, &settings, diag);
  if (e >= 0) e = share_text(j, mine.carry, &carry, diag);
  if (e >= 0) e = share_text(j, r->path, &path, diag);
  if (e >= 0) e = share_text(j, r->origin, &origin, diag);
  if (e >= 0) e = share_bytes(j, &r->read, sizeof r->read, diag);
  if (e >= 0 && j->launch.rank) {
    all.graph = graph, all.settings = settings, all.carry = carry ? carry : "", all.data = "";
    snprintf(r->path, sizeof r->path, "%s", path);
    snprintf(r->origin, sizeof r->origin, "%s", origin);
    e = mr_run_dir_become(r, &all, diag);
  }
  free(mine.settings), free(mine.plugins);
  free(graph), free(settings), free(carry), free(path), free(origin);
  return e;
}

mr_err_t mr_train_job_share(mr_train_job_t *j, mr_run_dir_t *r, mr_resume_point_t *at,
                            mr_diag_t *diag) {
  if (!j) return MR_OK;
  MR_TRY(share_part(j, r, diag));
  return share_checkpoint(j, at, diag);
}

/* ---- closing ---- */

void mr_train_job_fail(mr_train_job_t *j, const mr_diag_t *why) {
  if (j) mr_job_fail(j->job, why->text);
}

void mr_train_job_close(mr_train_job_t *j, mr_err_t e, const mr_diag_t *why) {
  if (!j) return;
  if (e < 0 && !j->known) mr_train_job_fail(j, why);
  if (j->talk) mr_job_collect(j->job)->destroy(j->talk);
  mr_process_ranks_set(NULL);
  mr_process_ranks_pause(false);
  mr_device_prefer(0);
  mr_notice_to(NULL, NULL);
  mr_job_close(j->job);
  if (j->checkpoint >= 0) close(j->checkpoint);
  free(j->outcome), free(j);
}
