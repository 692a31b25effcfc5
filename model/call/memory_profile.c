/* Notes of live arrays: a list under one lock, which is taken only for arrays that are noted, and
   whose stacks are walked before.  Names are looked up when a profile is written. */
#include "model/call/memory_profile.h"

#include <execinfo.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "model/call/array_note.h"
#include "model/call/function_name.h"
#include "model/call/pprof.h"

enum { OWN = 2 };     /* innermost frames that say nothing: mr__note_take and its caller */
enum { FRAMES = 40 }; /* of a stack; those further out are left out */

struct mr__note {
  mr__note_t *before, *next;
  size_t bytes;
  mr_aval_t aval;
  char jitted[64]; /* ""; or the name of a function */
  int n;
  void *frame[FRAMES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mr__note_t *noted;     /* under lock */
static atomic_bool is_noting; /* relaxed: it orders nothing, an array more or less may be noted */

void mr_memory_profile_begin(void) {
  atomic_store_explicit(&is_noting, true, memory_order_relaxed);
}

void mr_memory_profile_end(void) { atomic_store_explicit(&is_noting, false, memory_order_relaxed); }

/* Not inlined, so that OWN frames are as many as it says. */
__attribute__((noinline)) mr__note_t *mr__note_take(size_t n) {
  if (!atomic_load_explicit(&is_noting, memory_order_relaxed)) return NULL;
  mr__note_t *note = calloc(1, sizeof *note);
  if (!note) return NULL;
  note->bytes = n;
  note->n = backtrace(note->frame, FRAMES);
  pthread_mutex_lock(&lock);
  note->next = noted;
  if (noted) noted->before = note;
  noted = note;
  pthread_mutex_unlock(&lock);
  return note;
}

void mr__note_say(mr__note_t *n, const mr_aval_t *aval, const char *jitted) {
  if (!n) return;
  pthread_mutex_lock(&lock);
  if (aval) n->aval = *aval;
  if (jitted) snprintf(n->jitted, sizeof n->jitted, "%s", jitted);
  pthread_mutex_unlock(&lock);
}

void mr__note_drop(mr__note_t *n) {
  if (!n) return;
  pthread_mutex_lock(&lock);
  if (n->next) n->next->before = n->before;
  *(n->before ? &n->before->next : &noted) = n->next;
  pthread_mutex_unlock(&lock);
  free(n);
}

static void profile_add_note(mr_pprof_t *p, mr__functions_t *functions, const mr__note_t *note) {
  char aval[MR_AVAL_TEXT], jitted[80], name[FRAMES][160];
  const char *frame[FRAMES + 2];
  int n = 0;
  frame[n++] = mr_aval_text(&note->aval, aval);
  snprintf(jitted, sizeof jitted, "jit %s", note->jitted);
  if (*note->jitted) frame[n++] = jitted;
  for (int i = OWN < note->n ? OWN : 0; i < note->n; i++) {
    mr__function_at(functions, note->frame[i], name[i], sizeof name[i]);
    frame[n++] = name[i];
  }
  mr_pprof_add(p, n, frame, (int64_t)note->bytes);
}

mr_err_t mr_memory_profile(const char *path, mr_diag_t *diag) {
  mr_pprof_t *p = mr_pprof_create();
  mr__functions_t *functions = mr__functions_create();
  pthread_mutex_lock(&lock);
  for (const mr__note_t *n = p ? noted : NULL; n; n = n->next) profile_add_note(p, functions, n);
  pthread_mutex_unlock(&lock);
  mr__functions_destroy(functions);
  return mr_pprof_save(p, "the memory profile", path, diag);
}
