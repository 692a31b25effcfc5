/* web: a live page of a run.  Records are pushed to browsers as server-sent events, ten times a
   second at most; assets are compiled in, so the page needs no other server. */
#include <cjson/cJSON.h>
#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/xio.h"
#include "pipeline/metrics.h"
#include "sinks/http.h"
#include "sinks/json.h"
#include "sinks/picture.h"
#include "sinks/resume.h"
#include "sinks/web_assets.h"
#include "sinks/web_graph.h"
#include "sinks/web_log.h"

enum { PICTURES = 512, TICK_NS = 100000000, CHUNK = 64 << 10 };

typedef struct client {
  struct client *next;
  struct web *web;
  struct MHD_Connection *connection;
  size_t at, thinned; /* next message of the log, of which state */
  uint64_t live;      /* number of the live text it has */
  char *out;          /* what goes out, heap */
  size_t n, sent;
  bool asleep;
} client_t;

typedef struct picture {
  void *png;
  size_t n;
} picture_t;

typedef struct web {
  mr_http_settings_t set;
  const char *run;
  mr_resume_t resume;
  mr_http_t http;
  mr_stage_t *stage;
  pthread_t ticker;
  bool ticking, ready;
  pthread_cond_t wake;  /* the ticker, to end */
  pthread_mutex_t lock; /* the rest */
  mr_web_log_t log;
  picture_t picture[PICTURES];
  uint64_t n_pictures; /* number of the next; the newest PICTURES are there */
  client_t *clients;
  mr_web_live_t live;
  char *live_text; /* of cJSON */
  uint64_t live_number;
  bool over;
} web_t;

static const mr_opt_t web_opts[] = {
    MR_HTTP_OPTS(offsetof(web_t, set), "8360"),
    {.name = "run",
     .type = MR_OPT_STR,
     .offset = offsetof(web_t, run),
     .unit = "",
     .def = ".",
     .help = "Run folder; the runs beside it can be laid under its curves."},
    MR_RESUME_OPTS(offsetof(web_t, resume)),
    {0}};

/* ---- the stream of events ---- */

static void append(FILE *out, const char *event, const char *text) {
  if (event) fprintf(out, "event: %s\n", event);
  fprintf(out, "data: %s\n\n", text);
}

/* What is new for a client, at most about CHUNK bytes.  Under the lock. */
static void fill(client_t *c) {
  web_t *w = c->web;
  FILE *out;
  free(c->out);
  c->out = NULL, c->n = c->sent = 0;
  if (c->thinned != w->log.thinned) c->at = 0; /* the page puts records in order by their step */
  c->thinned = w->log.thinned;
  if (c->at >= w->log.n && c->live == w->live_number) return;
  if (!(out = open_memstream(&c->out, &c->n))) return;
  while (c->at < w->log.n && ftell(out) < CHUNK) append(out, NULL, w->log.message[c->at++].text);
  if (c->live != w->live_number && w->live_text) append(out, "live", w->live_text);
  c->live = w->live_number;
  fclose(out);
}

static ssize_t events_read(void *arg, uint64_t pos, char *buf, size_t max) {
  client_t *c = arg;
  web_t *w = c->web;
  ssize_t k = 0;
  pthread_mutex_lock(&w->lock);
  if (c->sent == c->n) fill(c);
  if (c->sent < c->n) {
    k = (ssize_t)(c->n - c->sent < max ? c->n - c->sent : max);
    memcpy(buf, c->out + c->sent, (size_t)k);
    c->sent += (size_t)k;
  } else if (w->over) {
    k = MHD_CONTENT_READER_END_OF_STREAM;
  } else {
    c->asleep = true; /* the ticker wakes it */
    MHD_suspend_connection(c->connection);
  }
  pthread_mutex_unlock(&w->lock);
  return k;
}

static void events_free(void *arg) {
  client_t *c = arg;
  web_t *w = c->web;
  pthread_mutex_lock(&w->lock);
  for (client_t **at = &w->clients; *at; at = &(*at)->next)
    if (*at == c) {
      *at = c->next;
      break;
    }
  pthread_mutex_unlock(&w->lock);
  free(c->out);
  free(c);
}

static struct MHD_Response *events(web_t *w, struct MHD_Connection *connection) {
  client_t *c = calloc(1, sizeof *c);
  if (!c) return NULL;
  c->web = w, c->connection = connection;
  pthread_mutex_lock(&w->lock);
  c->next = w->clients, w->clients = c;
  c->thinned = w->log.thinned;
  pthread_mutex_unlock(&w->lock);
  struct MHD_Response *r =
      MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, CHUNK, events_read, c, events_free);
  if (!r) events_free(c);
  if (r) MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream");
  return r;
}

/* ---- the ticker ---- */

static void wake_clients(web_t *w) {
  for (client_t *c = w->clients; c; c = c->next) {
    bool news = w->over || c->at < w->log.n || c->live != w->live_number;
    if (!c->asleep || !news) continue;
    c->asleep = false;
    MHD_resume_connection(c->connection);
  }
}

static void tick(web_t *w) {
  if (!w->clients) return;
  char *text = mr_web_live_json(&w->live, w->stage);
  if (text && (!w->live_text || strcmp(text, w->live_text))) {
    cJSON_free(w->live_text);
    w->live_text = text;
    w->live_number++;
  } else {
    cJSON_free(text);
  }
  wake_clients(w);
}

static void *ticker_main(void *arg) {
  web_t *w = arg;
  struct timespec next;
  clock_gettime(CLOCK_MONOTONIC, &next);
  pthread_setname_np(pthread_self(), "web-ticker");
  pthread_mutex_lock(&w->lock);
  while (!w->over) {
    next.tv_nsec += TICK_NS;
    if (next.tv_nsec >= 1000000000) next.tv_sec++, next.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&w->wake, &w->lock, &next);
    tick(w);
  }
  wake_clients(w);
  pthread_mutex_unlock(&w->lock);
  return NULL;
}

/* ---- other paths ---- */

static struct MHD_Response *asset(const char *path) {
  for (const mr_web_asset_t *a = mr_web_assets; a->path; a++) {
    if (strcmp(a->path, path)) continue;
    struct MHD_Response *r =
        MHD_create_response_from_buffer(a->n, (void *)(uintptr_t)a->data, MHD_RESPMEM_PERSISTENT);
    if (r) MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, a->type);
    return r;
  }
  return NULL;
}

static struct MHD_Response *picture(web_t *w, const char *number) {
  char *end;
  uint64_t i = strtoull(number, &end, 10);
  void *copy = NULL;
  size_t n = 0;
  if (end == number || *end) return NULL;
  pthread_mutex_lock(&w->lock);
  const picture_t *p = &w->picture[i % PICTURES];
  if (i < w->n_pictures && i + PICTURES >= w->n_pictures && (copy = malloc(p->n)))
    memcpy(copy, p->png, n = p->n);
  pthread_mutex_unlock(&w->lock);
  return copy ? mr_http_text(copy, n, "image/png") : NULL;
}

static struct MHD_Response *json(char *text) {
  return text ? mr_http_text(text, strlen(text), "application/json") : NULL;
}

/* The names of the runs beside this one. */
static struct MHD_Response *runs(const web_t *w) {
  char folder[MR_PATH_MAX], file[MR_PATH_MAX];
  struct stat st;
  cJSON *all = cJSON_CreateArray();
  snprintf(folder, sizeof folder, "%s/..", w->run);
  DIR *d = opendir(folder);
  for (struct dirent *e; d && (e = readdir(d));) {
    int n = snprintf(file, sizeof file, "%s/%s/metrics.jsonl", folder, e->d_name);
    if (e->d_name[0] == '.' || n >= (int)sizeof file || stat(file, &st) < 0) continue;
    cJSON_AddItemToArray(all, cJSON_CreateString(e->d_name));
  }
  if (d) closedir(d);
  char *text = cJSON_PrintUnformatted(all);
  cJSON_Delete(all);
  return json(text);
}

/* The metrics of one of them; a name that leads elsewhere is none. */
static struct MHD_Response *other_run(const web_t *w, const char *name) {
  char file[MR_PATH_MAX];
  void *data;
  size_t n;
  mr_diag_t unsaid = {0};
  if (!*name || name[0] == '.' || strchr(name, '/')) return NULL;
  if (snprintf(file, sizeof file, "%s/../%s/metrics.jsonl", w->run, name) >= (int)sizeof file)
    return NULL;
  if (mr_read_file(file, 64 << 20, &data, &n, &unsaid) < 0) return NULL;
  return mr_http_text(data, n, "application/x-ndjson");
}

static struct MHD_Response *web_answer(void *arg, struct MHD_Connection *c, const char *path) {
  web_t *w = arg;
  if (!strcmp(path, "/events")) return events(w, c);
  if (!strcmp(path, "/run.json")) return json(mr_web_run_json(w->stage, w->run));
  if (!strcmp(path, "/runs.json")) return runs(w);
  if (!strncmp(path, "/runs/", 6)) return other_run(w, path + 6);
  if (!strncmp(path, "/picture/", 9)) return picture(w, path + 9);
  return asset(path);
}

/* ---- the stage ---- */

static mr_err_t web_plan(mr_stage_t *s) {
  const web_t *w = s->state;
  if (!w->run || !w->run[0]) return mr_stage_fail(s, MR_ERR_CONFIG, "run: want a folder");
  return mr_http_plan(s, &w->set);
}

/* What the run before a resume has told: the curve begins where the run did. */
static void read_earlier(web_t *w) {
  char path[MR_PATH_MAX], *save = NULL;
  void *text;
  size_t n;
  mr_diag_t unsaid = {0};
  snprintf(path, sizeof path, "%s/metrics.jsonl", w->run);
  if (w->resume.step < 0 || mr_read_file(path, (size_t)1 << 30, &text, &n, &unsaid) < 0) return;
  for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
    cJSON *j = cJSON_Parse(line);
    const char *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(j, "kind"));
    const cJSON *step = cJSON_GetObjectItemCaseSensitive(j, "step");
    if (kind && cJSON_IsNumber(step) && mr_resume_keeps(&w->resume, kind, step->valuedouble))
      mr_web_log_add(&w->log, strdup(line), strcmp(kind, "step") != 0);
    cJSON_Delete(j);
  }
  free(text);
}

static mr_err_t start_ticker(web_t *w, mr_stage_t *s) {
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_mutex_init(&w->lock, NULL);
  pthread_cond_init(&w->wake, &attr);
  pthread_condattr_destroy(&attr);
  w->ready = true;
  if (!mr_web_live_init(&w->live, s)) return mr_stage_fail(s, MR_ERR_NOMEM, "no memory");
  w->ticking = pthread_create(&w->ticker, NULL, ticker_main, w) == 0;
  return w->ticking ? MR_OK : mr_stage_fail(s, MR_ERR_IO, "no thread");
}

static mr_err_t web_open(mr_stage_t *s) {
  web_t *w = s->state;
  char url[512];
  w->stage = s;
  read_earlier(w);
  MR_TRY(start_ticker(w, s));
  MR_TRY(mr_http_open(&w->http, s, &w->set, true, web_answer, w));
  mr_http_url(&w->http, url, sizeof url);
  printf("%s: %s\n", s->name, url);
  fflush(stdout);
  return MR_OK;
}

static void keep_picture(web_t *w, const mr_metrics_t *r) {
  const mr_picture_t *p = &r->picture;
  picture_t *at = &w->picture[w->n_pictures % PICTURES];
  free(at->png);
  at->png = mr_png_of(p->rgb, p->width, p->height, &at->n);
  char *text = NULL;
  if (asprintf(&text,
               "{\"kind\":\"%s\",\"step\":%" PRId64 ",\"picture\":%" PRIu64
               ",\"truth\":%d,\"guess\":%d,\"key\":%" PRIu64 "}",
               mr_metrics_kind_text(r->kind), r->step, w->n_pictures++, p->truth, p->guess,
               p->key) >= 0)
    mr_web_log_add(&w->log, text, false);
}

static void keep_record(web_t *w, const mr_metrics_t *r) {
  if (r->kind == MR_METRICS_SAMPLE || r->kind == MR_METRICS_WRONG) keep_picture(w, r);
  if (!mr_metrics_is_numbers(r)) return;
  char *text = mr_metrics_json(r);
  if (text) mr_web_log_add(&w->log, strdup(text), r->kind != MR_METRICS_STEP);
  cJSON_free(text);
}

static mr_err_t web_step(mr_stage_t *s) {
  web_t *w = s->state;
  mr_buf_t *b[MR_BURST];
  size_t k = mr_take(s, 0, b, MR_BURST);
  pthread_mutex_lock(&w->lock);
  for (size_t i = 0; i < k; i++) {
    keep_record(w, b[i]->data);
    mr_buf_unref(b[i]);
  }
  pthread_mutex_unlock(&w->lock);
  return k ? MR_OK : mr_idle(s);
}

/* Clients get what is left, then the streams end, then the server. */
static void end_streams(web_t *w) {
  pthread_mutex_lock(&w->lock);
  w->over = true;
  pthread_cond_signal(&w->wake);
  pthread_mutex_unlock(&w->lock);
  if (w->ticking) pthread_join(w->ticker, NULL);
  w->ticking = false;
  for (int ms = 0; ms < 500; ms += 10) { /* a slow one is cut off */
    pthread_mutex_lock(&w->lock);
    bool none = !w->clients;
    pthread_mutex_unlock(&w->lock);
    if (none) break;
    nanosleep(&(struct timespec){0, 10000000}, NULL);
  }
}

static void web_close(mr_stage_t *s) {
  web_t *w = s->state;
  if (w->ready) end_streams(w);
  mr_http_close(&w->http);
  mr_web_log_fini(&w->log);
  mr_web_live_fini(&w->live);
  for (int i = 0; i < PICTURES; i++) {
    free(w->picture[i].png);
    w->picture[i].png = NULL;
  }
  cJSON_free(w->live_text);
  w->live_text = NULL;
  if (w->ready) pthread_cond_destroy(&w->wake), pthread_mutex_destroy(&w->lock);
  w->ready = false;
}

const mr_stage_def_t mr_stage_web = {
    .name = "web",
    .help = "Shows the run on a live page.",
    .in = {{.name = "metrics", .flow = MR_FLOW_METRICS, .lossy = true}},
    .opts = web_opts,
    .state_sz = sizeof(web_t),
    .plan = web_plan,
    .open = web_open,
    .close = web_close,
    .step = web_step,
};
