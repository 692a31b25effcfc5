/* This process's end of a job: one thread receives parcels and gives each to its communicator, for
   whose callers it wakes up.

   Who is late: a rank that waits says so to the others now and then, and for whom it waits.  A rank
   whose time is up follows these words, from the rank that it waits for itself, to the first one
   that has not said anything lately: that one computes, is stopped or is dead.  Its verdict goes to
   all members, so that they report one rank.

   Which of these it is: the process of the late rank is asked, and its receiving thread answers
   whatever the others do, and says what that is, since when, and for which process it waits in
   another communicator, which is asked then.  One that does not answer fails the call long
   before the time of the call is up (mr_job_cfg_t.silent_s). */
#include "ranks/processes_private.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "ranks/job.h"

enum { GROUPS_MOST = 4096, TICK_MOST_MS = 200, ASK_MS = 500, LEFT_MS = 3000, NOTICE_S = 10 };
enum { DOING_TEXT = 120, VALUE_BYTES = 4096 /* more than a rank says of itself in ASK_MS */ };

/* What is known of another process. */
typedef struct other {
  int64_t heard_ns;          /* when anything came from it last; the job's start */
  int64_t asked_ns;          /* when it was asked what it has not answered yet; 0: it was not */
  int64_t gave_ns;           /* when values came last, or word that it has some; 0: never */
  uint64_t arrived;          /* bytes from it when the wire was looked at last */
  int64_t said_ns, moved_ns; /* when it said last what it does, and since when that stands still */
  int waits_for;             /* the process for which it waited then; -1: none */
  bool comes;                /* and it saw values come from there */
  char doing[DOING_TEXT];    /* what it said last that it does; "": nothing */
} other_t;

/* How many communicators of an id this process has had. */
typedef struct epoch {
  struct epoch *next;
  uint32_t n;
  char id[MR_COLLECT_ID];
} epoch_t;

static struct {
  pthread_mutex_t lock; /* of all below, and of sending */
  const mr__wire_ops_t *ops;
  mr__wire_t *wire; /* NULL: no job */
  int rank, size, n_groups, waiting, byes;
  double limit_s;
  pthread_cond_t left; /* a rank has said bye, or something has failed */
  bool stop, whole;    /* whole: nothing has failed but what was tried */
  mr__group_t *groups;
  epoch_t *epochs;
  double silent_s; /* 0: none */
  other_t *other;  /* [size] */
  mr_diag_t down;  /* why a rank's run has failed; code MR_OK: none */
  mr_diag_t lost;  /* of the first communicator that has failed */
  const char *doing;
  int64_t step, doing_ns, looked_ns;
  mr_pace_t pace;
  pthread_t thread;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

void mr__processes_lock(void) { pthread_mutex_lock(&process.lock); }
void mr__processes_unlock(void) { pthread_mutex_unlock(&process.lock); }

int mr__processes_rank(void) {
  mr__processes_lock();
  int rank = process.rank;
  mr__processes_unlock();
  return rank;
}

static void parcels_add(mr__parcels_t *q, mr__parcel_t *p) {
  p->next = NULL;
  if (!q->first) q->last = &q->first;
  *q->last = p, q->last = &p->next;
}

mr__parcel_t *mr__parcels_take(mr__parcels_t *q) {
  mr__parcel_t *p = q->first;
  if (p) q->first = p->next;
  return p;
}

static void parcels_drop(mr__parcels_t *q) {
  for (mr__parcel_t *p; (p = mr__parcels_take(q));) p->drop(p);
}

/* ---- communicators ---- */

static mr__group_t *group_of_id(const char *id, uint32_t epoch) {
  mr__group_t *g = process.groups;
  while (g && (g->epoch != epoch || strcmp(g->id, id) != 0)) g = g->next;
  return g;
}

static mr__group_t *add_group(const char *id, uint32_t epoch, int size) {
  if (process.n_groups == GROUPS_MOST) return NULL;
  mr__group_t *g = calloc(1, sizeof *g + (size_t)size * sizeof g->member[0]);
  if (!g) return NULL;
  strcpy(g->id, id);
  mr_cond_init(&g->changed);
  g->epoch = epoch, g->size = size, g->own = g->missing = g->waits_for = -1;
  g->tried = !strncmp(id, MR_COLLECT_TRY, strlen(MR_COLLECT_TRY));
  for (int r = 0; r < size; r++) g->member[r].job_rank = -1;
  g->next = process.groups, process.groups = g;
  process.n_groups++;
  return g;
}

static void remove_group(mr__group_t *g) {
  mr__group_t **at = &process.groups;
  while (*at != g) at = &(*at)->next;
  *at = g->next;
  process.n_groups--;
  for (int r = 0; r < g->size; r++)
    parcels_drop(&g->member[r].data), parcels_drop(&g->member[r].letters);
  pthread_cond_destroy(&g->changed);
  free(g);
}

static epoch_t *epoch_of(const char *id) {
  epoch_t *e = process.epochs;
  while (e && strcmp(e->id, id) != 0) e = e->next;
  return e;
}

/* ---- sending ---- */

static bool send_parcel(const mr__group_t *g, int job_rank, mr__parcel_kind_t kind, uint64_t call,
                        int a, int b, mr__parcel_t *p) {
  if (!p) return false;
  mr__head_t *h = p->head;
  h->kind = kind, h->from = (uint32_t)process.rank, h->epoch = g->epoch;
  h->call = call, h->a = a, h->b = b;
  memcpy(h->id, g->id, sizeof h->id);
  return process.ops->send(process.wire, job_rank, p);
}

/* To the members that are known, or to all ranks of the job. */
static void send_others(const mr__group_t *g, bool members, mr__parcel_kind_t kind, int a, int b,
                        const char *text) {
  int n = members ? g->size : process.size;
  size_t bytes = strlen(text);
  for (int i = 0; i < n; i++) {
    int to = members ? g->member[i].job_rank : i;
    if (to < 0 || to == process.rank) continue;
    mr__parcel_t *p = mr__parcel_new(bytes);
    if (p) memcpy(p->data, text, bytes);
    send_parcel(g, to, kind, 0, a, b, p); /* what is lost without memory is missed in time */
  }
}

static void set_failed(mr__group_t *g, int missing, const char *text) {
  g->missing = missing;
  mr_fail(&g->why, MR_ERR_UNAVAILABLE, "%s", text);
  if (!g->tried) process.whole = false;
  if (!g->tried && process.lost.code >= 0) process.lost = g->why;
  pthread_cond_broadcast(&g->changed);
  pthread_cond_broadcast(&process.left);
}

void mr__group_fail(mr__group_t *g, int missing, const char *format, ...) {
  char said[600], text[700];
  if (g->why.code < 0) return;
  va_list args;
  va_start(args, format);
  mr_vsnprintf(said, sizeof said, format, args);
  va_end(args);
  mr_snprintf(text, sizeof text, "communicator %s: %s", g->id, said);
  set_failed(g, missing, text);
  send_others(g, true, MR__PARCEL_FAIL, missing, 0, g->why.text);
}

static void fail_without_memory(mr__group_t *g) {
  mr_diag_t why = {0};
  if (g->why.code < 0) return;
  mr_no_memory(&why, "what rank %d sends", process.rank);
  set_failed(g, -1, why.text);
  send_others(g, true, MR__PARCEL_FAIL, -1, 0, g->why.text);
}

void mr__group_send(mr__group_t *g, int r, mr__parcel_kind_t kind, uint64_t call, int b,
                    mr__parcel_t *p) {
  if (!send_parcel(g, g->member[r].job_rank, kind, call, g->own, b, p)) fail_without_memory(g);
}

/* ---- joining ---- */

mr_err_t mr__group_join(const char *id, int rank, int size, double limit_s, mr__group_t **out,
                        mr_diag_t *diag) {
  if (!process.wire)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "communicator %s: no job is open in this process: call mr_job_open first", id);
  if (size > process.size)
    return mr_fail(diag, MR_ERR_CONFIG, "communicator %s: %d ranks, but the job has %d processes",
                   id, size, process.size);
  epoch_t *e = epoch_of(id);
  uint32_t n = e ? e->n : 0;
  mr__group_t *g = group_of_id(id, n);
  if (!e && (e = calloc(1, sizeof *e))) {
    strcpy(e->id, id);
    e->next = process.epochs, process.epochs = e;
  }
  if (e && !g) g = add_group(id, n, size);
  if (!e || !g) return mr_no_memory(diag, "a communicator of %d ranks", size);
  if (g->size != size)
    return mr_fail(diag, MR_ERR_CONFIG, "communicator %s: size %d, the other ranks have %d", id,
                   size, g->size);
  if (g->member[rank].job_rank >= 0)
    return mr_fail(diag, MR_ERR_CONFIG,
                   "communicator %s: rank %d has joined already in place %d of %d, which rank %d "
                   "asks for",
                   id, g->member[rank].job_rank, rank, size, process.rank);
  g->own = rank, g->limit_s = limit_s < 1e8 ? limit_s : 1e8;
  g->member[rank].job_rank = process.rank;
  g->joined++;
  e->n++;
  if (process.down.code < 0) set_failed(g, -1, process.down.text);
  send_others(g, false, MR__PARCEL_JOIN, rank, size, "");
  process.ops->wake(process.wire); /* its limit may be shorter than the others' */
  return *out = g, MR_OK;
}

void mr__group_leave(mr__group_t *g) {
  send_others(g, false, MR__PARCEL_LEAVE, g->own, 0, "");
  remove_group(g);
}

/* ---- waiting ---- */

int64_t mr__group_until(const mr__group_t *g) { return mr_now_ns() + (int64_t)(g->limit_s * 1e9); }

/* A rank that has said within this time that it waits still does. */
static int64_t fresh_ns(const mr__group_t *g) {
  double s = process.silent_s > 0 && process.silent_s < g->limit_s ? process.silent_s : g->limit_s;
  return (int64_t)(s * 0.6e9);
}

/* Whether values have come from a process (-1: unknown) lately. */
static bool sees_values(int at, int64_t now) {
  return at >= 0 && now - process.other[at].gave_ns < (int64_t)ASK_MS * 4000000;
}

/* Follows from rank r on who waits for whom; the file's comment says how.  *comes: whether one of
   these sees values come. */
static int find_late_member(const mr__group_t *g, int r, bool *comes) {
  int64_t fresh = mr_now_ns() - fresh_ns(g);
  for (int i = 0; i < g->size; i++) {
    const mr__member_t *m = &g->member[r];
    if (m->beat_ns < fresh || !m->beat_ns) break;
    *comes |= m->comes;
    if (m->waits_for == g->own) break;
    r = m->waits_for;
  }
  return r;
}

/* Its process; in a communicator of the whole job also before it has joined.  -1: unknown. */
static int process_of_member(const mr__group_t *g, int r) {
  int known = g->member[r].job_rank;
  return known < 0 && g->size == process.size ? r : known;
}

/* How long a call waits before it asks, and then from question to question. */
static int64_t ask_every_ns(const mr__group_t *g) {
  int64_t usual = (int64_t)ASK_MS * 1000000, quarter = (int64_t)(g->limit_s * 0.25e9);
  return quarter < usual ? quarter : usual;
}

static void ask_process(int to) {
  mr__parcel_t *p = mr__parcel_new(0);
  if (!p) return;
  if (!process.other[to].asked_ns) process.other[to].asked_ns = mr_now_ns();
  p->head->kind = MR__PARCEL_ASK, p->head->from = (uint32_t)process.rank;
  process.ops->send(process.wire, to, p);
}

int mr__group_process(const mr__group_t *g, int r) {
  int at = process_of_member(g, r);
  return at < 0 ? r : at;
}

/* Who keeps a call waiting. */
typedef struct late {
  int member;  /* that which the words of the communicator lead to */
  int at;      /* its process, or that for which this one waits elsewhere; -1: unknown */
  bool waits;  /* it waits itself, in a circle: it is not late */
  bool circle; /* and for this process, */
  bool here;   /* in this communicator */
  bool comes;  /* one of those that wait sees values come: it is served, if slowly */
} late_t;

/* Whether what a process said last can still be so. */
static bool is_recent(const other_t *o, int64_t now) {
  return o->said_ns && now - o->said_ns < (int64_t)ASK_MS * 4000000;
}

/* Follows from rank r on, first by what ranks of this communicator say, then by what processes say
   that wait in another one.  asks: asks these what they do. */
static late_t find_late(const mr__group_t *g, int r, bool asks) {
  int64_t now = mr_now_ns();
  bool known = g->member[r].job_rank >= 0;
  late_t l = {.comes = process.silent_s > 0 && sees_values(process_of_member(g, r), now)};
  l.member = known ? find_late_member(g, r, &l.comes) : r;
  const mr__member_t *m = &g->member[l.member];
  l.at = process_of_member(g, l.member);
  if (process.silent_s <= 0 || l.at < 0) return l;
  l.waits = known && m->beat_ns && now - m->beat_ns < fresh_ns(g);
  l.here = m->waits_for == g->own && now - m->beat_ns < (int64_t)ASK_MS * 4000000;
  l.circle = l.here;
  if (asks) ask_process(l.at);
  for (int i = 0; i < process.size && !l.waits; i++) {
    const other_t *o = &process.other[l.at];
    if (!is_recent(o, now) || o->waits_for < 0) break;
    l.comes |= o->comes;
    l.waits = l.circle = o->waits_for == process.rank;
    if (!l.waits) l.at = o->waits_for;
    if (asks && !l.waits) ask_process(l.at);
  }
  return l;
}

/* "; rank 2 computes step 18 since 12 s", or nothing. */
static const char *doing_text(int r, const other_t *o, const char *verb, char *text, size_t n) {
  text[0] = 0;
  if (o && *o->doing) mr_snprintf(text, n, "; rank %d %s%s", r, verb, o->doing);
  return text;
}

/* The rank of the communicator that is missing; -1: it is none. */
static int missing_member(const mr__group_t *g, const late_t *l) {
  return l->at < 0 || l->at == process_of_member(g, l->member) ? l->member : -1;
}

static bool fail_late(mr__group_t *g, const late_t *l, const char *what) {
  int name = l->at < 0 ? l->member : l->at;
  char doing[DOING_TEXT + 64];
  doing_text(name, l->at < 0 || !process.silent_s ? NULL : &process.other[l->at], "", doing,
             sizeof doing);
  mr__group_fail(g, missing_member(g, l),
                 "rank %d did not come to %s within %g s, for which rank %d waited%s", name, what,
                 g->limit_s, mr__group_process(g, g->own), doing);
  return false;
}

static int64_t later_of(int64_t a, int64_t b) { return a > b ? a : b; }

/* Since when a process stands still.  One that has not answered may have gone on meanwhile: what it
   said before a question counts no longer. */
static int64_t stands_since(const other_t *o, int64_t now) {
  if (is_recent(o, now)) return o->moved_ns;
  return later_of(o->moved_ns, o->asked_ns ? o->asked_ns : now);
}

/* Whether the rank that this one waits for has waited for this one so long that it will not come.
   Within a communicator that is certain.  Over several ones it may be another thread that waits,
   while the one that is to come works: that has the time that all work has. */
static bool is_lasting_circle(mr__group_t *g, const late_t *l, int64_t begun, int64_t now) {
  const other_t *o = &process.other[l->at];
  /* A rank may have waited long behind others' before the other one came to wait for it. */
  if (!l->circle || l->comes) return g->circle_ns = 0, false;
  if (g->circle_ns < begun) g->circle_ns = now;
  int64_t since = later_of(g->circle_ns, o->gave_ns);
  if (l->here && now - since > (int64_t)(process.silent_s * 1e9)) return true;
  return now - later_of(since, stands_since(o, now)) >= (int64_t)(g->limit_s * 1e9);
}

/* Fails for a process that has not been heard of for too long since it was asked, by a rank that
   has waited for it since then.  missing: its rank of the communicator, -1: none. */
static bool fail_silent(mr__group_t *g, int missing, int at, int64_t begun, const char *what) {
  const other_t *o = &process.other[at];
  int64_t now = mr_now_ns(), silent = (int64_t)(process.silent_s * 1e9);
  int64_t asked = later_of(o->asked_ns, begun); /* a process says nothing unasked */
  char doing[DOING_TEXT + 64];
  if (!o->asked_ns || now - later_of(o->heard_ns, asked) <= silent) return false;
  mr__group_fail(g, missing,
                 "rank %d has not been heard of for %.0f s, while rank %d waits for it in %s: it "
                 "was stopped, has died or cannot be reached%s",
                 at, (double)(now - o->heard_ns) * 1e-9, mr__group_process(g, g->own), what,
                 doing_text(at, o, "said last that it ", doing, sizeof doing));
  return true;
}

void mr__group_ask(mr__group_t *g, int64_t begun, const char *what) {
  for (int r = 0; r < g->size && process.silent_s > 0 && g->why.code >= 0; r++) {
    int at = process_of_member(g, r);
    if (r == g->own || at < 0) continue;
    ask_process(at);
    (void)fail_silent(g, r, at, begun, what);
  }
}

/* Whether a wait that began then has to end: its time is up, or the rank that is late has left,
   says nothing, or waits for this one. */
static bool wait_has_failed(mr__group_t *g, int r, int64_t begun, int64_t until, const char *what) {
  int64_t now = mr_now_ns(), silent = (int64_t)(process.silent_s * 1e9);
  const mr__member_t *m = &g->member[r];
  bool is_up = now >= until;
  int own = mr__group_process(g, g->own);
  if (m->left_ns && now - m->left_ns > (int64_t)LEFT_MS * 1000000) {
    mr__group_fail(g, r, "rank %d has left, and rank %d waited for it in %s",
                   mr__group_process(g, r), own, what);
    return true;
  }
  if (!is_up && (!silent || now - begun < ask_every_ns(g))) return false;
  late_t l = find_late(g, r, true);
  if (!silent || l.at < 0) return is_up && !fail_late(g, &l, what);
  const other_t *o = &process.other[l.at];
  char doing[DOING_TEXT + 64];
  if (fail_silent(g, missing_member(g, &l), l.at, begun, what)) return true;
  if (is_lasting_circle(g, &l, begun, now)) {
    mr__group_fail(
        g, missing_member(g, &l),
        "rank %d waits for rank %d in %s, and rank %d for rank %d%s: they make different "
        "calls%s",
        own, mr__group_process(g, r), what, l.at, own, l.here ? "" : " in another communicator",
        doing_text(l.at, o, "", doing, sizeof doing));
    return true;
  }
  bool stands = now - stands_since(o, now) >= (int64_t)(g->limit_s * 1e9);
  return is_up && stands && !l.waits && !fail_late(g, &l, what);
}

/* Tells the user that a wait is long, unless what it is for continues: once, and again if it
   continues and then stands still again. */
static void notice_wait(mr__group_t *g, int r, int64_t begun, const char *what) {
  if (process.silent_s <= 0) return;
  late_t l = find_late(g, r, false);
  if (l.at < 0 || l.waits) return;
  const other_t *o = &process.other[l.at];
  int64_t now = mr_now_ns(), since = later_of(stands_since(o, now), begun);
  int own = mr__group_process(g, g->own);
  char doing[DOING_TEXT + 64];
  if (now - since < INT64_C(1000000000) * NOTICE_S || since < g->noticed_ns) return;
  g->noticed_ns = now;
  doing_text(l.at, o, "", doing, sizeof doing);
  mr__processes_unlock(); /* the caller looks at everything again */
  mr_notice("rank %d has waited for rank %d in %s for %.0f s%s", own, l.at, what,
            (double)(now - begun) * 1e-9, doing);
  mr__processes_lock();
}

bool mr__group_wait(mr__group_t *g, int r, int64_t until_ns, const char *what) {
  if (g->why.code < 0) return false;
  int64_t begun = until_ns - (int64_t)(g->limit_s * 1e9), wake = until_ns;
  if (wait_has_failed(g, r, begun, until_ns, what)) return false;
  if (process.silent_s > 0 || g->member[r].left_ns) wake = mr_now_ns() + ask_every_ns(g);
  if (wake > until_ns && !process.silent_s) wake = until_ns;
  g->waits_for = r;
  if (process.waiting++ == 0 && process.ops->polls) process.ops->wake(process.wire);
  mr_cond_wait_until(&g->changed, &process.lock, wake); /* the caller looks once more */
  notice_wait(g, r, begun, what);
  process.waiting--;
  g->waits_for = -1;
  return g->why.code >= 0;
}

/* ---- receiving ---- */

static void take_join(const mr__head_t *h) {
  const epoch_t *e = epoch_of(h->id);
  if (h->b < 1 || h->b > MR_COLLECT_RANKS || h->b > process.size || h->a < 0 || h->a >= h->b)
    return;
  mr__group_t *g = group_of_id(h->id, h->epoch);
  if (!g && e && h->epoch < e->n) return; /* this process has left it */
  if (!g && !(g = add_group(h->id, h->epoch, h->b))) return;
  if (g->size != h->b)
    mr__group_fail(g, -1, "rank %d has size %d, the other ranks have %d", (int)h->from, h->b,
                   g->size);
  else if (g->member[h->a].job_rank >= 0)
    mr__group_fail(g, -1, "ranks %d and %d have both joined in place %d of %d",
                   g->member[h->a].job_rank, (int)h->from, h->a, h->b);
  else
    g->member[h->a].job_rank = (int)h->from, g->joined++;
  pthread_cond_broadcast(&g->changed);
}

static void take_leave(mr__group_t *g, mr__member_t *m) {
  m->left_ns = mr_now_ns();
  pthread_cond_broadcast(&g->changed);
  if (++g->left == g->joined && g->own < 0) remove_group(g);
}

static void take_fail(mr__group_t *g, const mr__parcel_t *p) {
  char text[sizeof g->why.text];
  size_t n = p->head->bytes < sizeof text - 1 ? p->head->bytes : sizeof text - 1;
  int missing = p->head->a;
  memcpy(text, p->data, n), text[n] = 0;
  if (g->why.code >= 0 && missing >= -1 && missing < g->size) set_failed(g, missing, text);
}

static bool is_from_member(const mr__group_t *g, const mr__head_t *h) {
  if (h->kind != MR__PARCEL_FAIL)
    return h->a >= 0 && h->a < g->size && g->member[h->a].job_rank == (int)h->from;
  for (int r = 0; r < g->size; r++)
    if (g->member[r].job_rank == (int)h->from) return true;
  return false;
}

/* The process for which a call of this one waits; -1: none does.  Of several ones it is
   another process than `asker`, if there is one: with that one it may be in no circle. */
static int waits_for_process(int asker) {
  int found = -1;
  for (const mr__group_t *g = process.groups; g; g = g->next) {
    int at = g->own >= 0 && g->waits_for >= 0 ? process_of_member(g, g->waits_for) : -1;
    if (at >= 0 && (found < 0 || found == asker)) found = at;
  }
  return found;
}

/* Writes what this process does, "computes step 18 since 12 s", "evaluates after step 40, batch 12
   of 40 since 0 s", and returns since when it stands there; 0: nothing is known of that. */
static int64_t say_doing(char *text, size_t n) {
  mr_beat_t beat = mr_pace_newest(process.pace);
  const char *unit = mr_pace_unit(process.pace);
  int64_t now = mr_now_ns(), since = beat.ns > process.doing_ns ? beat.ns : process.doing_ns;
  /* Values come for any work, so that their beats may continue the unit of an earlier one. */
  int64_t named = process.pace == MR_PACE_VALUES ? beat.unit_ns : beat.ns;
  char at[64] = "", of[32] = "";
  text[0] = 0;
  if (!process.doing) return 0;
  if (beat.of > 0) mr_snprintf(of, sizeof of, " of %" PRId64, beat.of);
  if (unit && named >= process.doing_ns && beat.at > 0)
    mr_snprintf(at, sizeof at, ", %s %" PRId64 "%s", unit, beat.at, of);
  mr_snprintf(text, n, "%.60s step %" PRId64 "%s since %.0f s", process.doing, process.step, at,
              (double)(now - since) * 1e-9);
  return process.pace == MR_PACE_OPEN ? now : since;
}

static void answer_alive(int to) {
  char text[DOING_TEXT] = "";
  int64_t since = say_doing(text, sizeof text);
  mr__parcel_t *p = mr__parcel_new(strlen(text));
  if (!p) return;
  memcpy(p->data, text, strlen(text));
  p->head->kind = MR__PARCEL_ALIVE, p->head->from = (uint32_t)process.rank;
  p->head->a = waits_for_process(to), p->head->b = sees_values(p->head->a, mr_now_ns());
  p->head->call = since ? (uint64_t)(mr_now_ns() - since) : UINT64_MAX;
  process.ops->send(process.wire, to, p);
}

static void take_alive(other_t *o, const mr__parcel_t *p) {
  char text[DOING_TEXT];
  size_t n = p->head->bytes < sizeof text - 1 ? p->head->bytes : sizeof text - 1;
  memcpy(text, p->data, n), text[n] = 0;
  mr_printable(text, o->doing, sizeof o->doing);
  o->waits_for = p->head->a < process.size ? p->head->a : -1;
  o->comes = p->head->b;
  o->said_ns = o->heard_ns;
  o->moved_ns = p->head->call < (uint64_t)o->said_ns ? o->said_ns - (int64_t)p->head->call : 0;
}

/* Fails all communicators of this process. */
static void fail_all(const char *text) {
  if (process.down.code < 0) return;
  mr_fail(&process.down, MR_ERR_UNAVAILABLE, "%s", text);
  process.whole = false;
  for (mr__group_t *g = process.groups; g; g = g->next)
    if (g->why.code >= 0) set_failed(g, -1, process.down.text);
  pthread_cond_broadcast(&process.left);
}

static void take_down(const mr__parcel_t *p) {
  char said[900], text[1000];
  size_t n = p->head->bytes < sizeof said - 1 ? p->head->bytes : sizeof said - 1;
  memcpy(said, p->data, n), said[n] = 0;
  /* The sender knows it from that rank, or by a call, and is not to blame. */
  if (mr_names_rank(said) || p->head->a)
    mr_snprintf(text, sizeof text, "%s", said);
  else
    mr_snprintf(text, sizeof text, "rank %d has failed: %s", (int)p->head->from, said);
  fail_all(text);
}

/* What a process says of itself and not of a communicator.  false: another kind. */
static bool take_of_process(const mr__parcel_t *p) {
  const mr__head_t *h = p->head;
  if (h->kind == MR__PARCEL_ASK) return answer_alive((int)h->from), true;
  if (h->kind == MR__PARCEL_ALIVE) return take_alive(&process.other[h->from], p), true;
  if (h->kind == MR__PARCEL_DOWN) return take_down(p), true;
  if (h->kind != MR__PARCEL_BYE) return false;
  process.byes++;
  pthread_cond_broadcast(&process.left);
  return true;
}

/* Gives p to its communicator, or drops it. */
static void take_parcel(mr__parcel_t *p) {
  const mr__head_t *h = p->head;
  process.other[h->from].heard_ns = mr_now_ns(), process.other[h->from].asked_ns = 0;
  if (h->kind == MR__PARCEL_JOIN) return take_join(h), p->drop(p);
  if (take_of_process(p)) return p->drop(p);
  mr__group_t *g = group_of_id(h->id, h->epoch);
  if (!g || !is_from_member(g, h)) return p->drop(p);
  mr__member_t *m = &g->member[h->kind == MR__PARCEL_FAIL ? 0 : h->a];
  bool given = h->kind == MR__PARCEL_DATA || h->kind == MR__PARCEL_LETTER;
  /* Who waits for this looks again.  A thread that does not, as it stands, no longer waits for that
     rank, and must not be said to. */
  if ((given || h->kind == MR__PARCEL_TAKEN) && g->waits_for == h->a) g->waits_for = -1;
  if (given || h->kind == MR__PARCEL_TAKEN) mr_pace_beat(MR_PACE_VALUES, 0, 0);
  if (given) {
    process.other[h->from].gave_ns = mr_now_ns();
    parcels_add(h->kind == MR__PARCEL_DATA ? &m->data : &m->letters, p);
    pthread_cond_broadcast(&g->changed);
    return;
  }
  if (h->kind == MR__PARCEL_TAKEN) {
    process.other[h->from].gave_ns = mr_now_ns();
    m->taken++, pthread_cond_broadcast(&g->changed);
  }
  if (h->kind == MR__PARCEL_BEAT && h->b >= 0 && h->b < g->size)
    m->beat_ns = mr_now_ns(), m->waits_for = h->b, m->comes = h->bytes > 0;
  if (h->kind == MR__PARCEL_FAIL) take_fail(g, p);
  if (h->kind == MR__PARCEL_LEAVE) take_leave(g, m);
  p->drop(p);
}

/* Says for each communicator in which this rank waits for whom, and returns how many ms that may
   take until it is to be said again. */
static int send_beats(void) {
  int ms = process.groups ? TICK_MOST_MS : -1;
  for (mr__group_t *g = process.groups; g; g = g->next) {
    if (g->own < 0) continue;
    int tick = (int)(g->limit_s * 100 < TICK_MOST_MS ? g->limit_s * 100 : TICK_MOST_MS);
    int64_t now = mr_now_ns();
    if (g->waits_for >= 0 && now - g->beat_ns >= (int64_t)tick * 2000000) {
      int at = process_of_member(g, g->waits_for);
      const char *comes = sees_values(at, now) ? "it comes" : "";
      send_others(g, true, MR__PARCEL_BEAT, g->own, g->waits_for, comes);
      g->beat_ns = now;
    }
    ms = tick < 1 ? 1 : tick < ms ? tick : ms;
  }
  return ms;
}

/* Over a slow link a parcel takes longer to come than a rank may be silent: what has come of it
   counts. */
static void look_at_wire(void) {
  int64_t now = mr_now_ns();
  if (!process.ops->arrived || !process.waiting ||
      now - process.looked_ns < (int64_t)ASK_MS * 1000000)
    return;
  process.looked_ns = now;
  for (int r = 0; r < process.size; r++) {
    other_t *o = &process.other[r];
    uint64_t bytes = r == process.rank ? 0 : process.ops->arrived(process.wire, r);
    if (bytes > o->arrived) o->heard_ns = now;
    if (bytes > o->arrived + VALUE_BYTES) o->gave_ns = now;
    o->arrived = bytes;
  }
}

static void *receive_main(void *arg) {
  mr__processes_lock();
  while (!process.stop) {
    int ms = send_beats();
    bool soon = process.waiting > 0;
    mr__processes_unlock();
    mr__parcel_t *p = process.ops->receive(process.wire, ms, soon);
    mr__processes_lock();
    if (p) take_parcel(p);
    look_at_wire();
  }
  mr__processes_unlock();
  return NULL;
}

mr_err_t mr__processes_start(const mr__wire_ops_t *ops, mr__wire_t *w, int rank, int size,
                             double limit_s, double silent_s, mr_diag_t *diag) {
  other_t *other = calloc((size_t)size, sizeof *other);
  if (!other) return mr_no_memory(diag, "the ranks of a job");
  for (int r = 0; r < size; r++) other[r].heard_ns = mr_now_ns(), other[r].waits_for = -1;
  mr__processes_lock();
  bool free_now = !process.wire;
  if (free_now) {
    process.other = other, process.silent_s = silent_s;
    process.down = process.lost = (mr_diag_t){0}, process.doing = NULL;
    process.ops = ops, process.wire = w, process.rank = rank, process.size = size;
    process.stop = false, process.whole = true, process.waiting = process.byes = 0;
    process.limit_s = limit_s < 1e8 ? limit_s : 1e8;
    mr_cond_init(&process.left);
  }
  mr__processes_unlock();
  if (!free_now) {
    free(other);
    return mr_fail(diag, MR_ERR_CONFIG, "a job of %d ranks is open in this process already",
                   process.size);
  }
  if (!pthread_create(&process.thread, NULL, receive_main, NULL)) return MR_OK;
  pthread_cond_destroy(&process.left);
  free(process.other);
  process.wire = NULL, process.other = NULL;
  return mr_no_memory(diag, "the thread of a job's ranks");
}

void mr__processes_doing(const char *what, int64_t step, mr_pace_t pace) {
  mr__processes_lock();
  process.doing = what, process.step = step, process.pace = pace;
  process.doing_ns = mr_now_ns();
  mr__processes_unlock();
}

void mr__processes_fail(const char *text) {
  size_t n = strlen(text);
  mr__processes_lock();
  bool first = process.wire && process.down.code >= 0;
  bool by_call = process.lost.code < 0 && strstr(text, process.lost.text);
  if (first) fail_all(text);
  for (int r = 0; first && r < process.size; r++) {
    mr__parcel_t *p = r == process.rank ? NULL : mr__parcel_new(n);
    if (!p) continue;
    memcpy(p->data, text, n);
    p->head->kind = MR__PARCEL_DOWN, p->head->from = (uint32_t)process.rank;
    p->head->a = by_call;
    process.ops->send(process.wire, r, p);
  }
  mr__processes_unlock();
}

void mr__processes_stop(void) {
  mr__processes_lock();
  for (int r = 0; r < process.size; r++) {
    mr__parcel_t *p = r == process.rank ? NULL : mr__parcel_new(0);
    if (!p) continue;
    p->head->kind = MR__PARCEL_BYE, p->head->from = (uint32_t)process.rank;
    process.ops->send(process.wire, r, p);
  }
  int64_t until = mr_now_ns() + (int64_t)(process.limit_s * 1e9);
  while (process.whole && process.byes < process.size - 1 &&
         mr_cond_wait_until(&process.left, &process.lock, until))
    continue;
  bool whole = process.whole && process.byes >= process.size - 1;
  process.stop = true;
  process.ops->wake(process.wire);
  mr__processes_unlock();
  pthread_join(process.thread, NULL);
  process.ops->close(process.wire, whole);
  pthread_cond_destroy(&process.left);
  mr__processes_lock();
  process.wire = NULL;
  free(process.other);
  process.other = NULL;
  while (process.groups) remove_group(process.groups);
  for (epoch_t *e; (e = process.epochs); free(e)) process.epochs = e->next;
  mr__processes_unlock();
}
