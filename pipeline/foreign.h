/* Translates names and value spellings of other frameworks (torch, torchvision, tf.data, Keras,
   GStreamer) into this one's.  Every function is pure and may be called from any thread; returned
   strings are static unless the caller passes a buffer. */
#ifndef MR_PIPELINE_FOREIGN_H
#define MR_PIPELINE_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/decls.h"
#include "pipeline/opt.h"

MR_BEGIN_DECLS

/* Bytes for any hint of this file. */
enum { MR_HINT_MAX = 256 };

/* What to write for a stage that other frameworks call name ("take", "RandomHorizontalFlip",
   "videoconvert"): a static sentence without a period.  NULL if the name is unknown.  Case, '-' and
   '_' are ignored. */
const char *mr_foreign_stage(const char *name);

/* This framework's name for a setting ("lr" for "learning_rate") into ours[0,n): the first
   candidate for which known(ctx, candidate) holds.  False if no candidate is known; ours is then
   unspecified. */
bool mr_foreign_setting(const char *name, bool (*known)(const void *ctx, const char *ours),
                        const void *ctx, char *ours, size_t n);

/* Why a setting of other frameworks ("pin_memory") has no counterpart here: a static sentence
   without a period.  NULL if the setting is unknown. */
const char *mr_foreign_missing(const char *name);

/* True if word is one of the choices "a|b|c"; false otherwise, also for "". */
bool mr_is_choice(const char *choices, const char *word);

/* A hint how to write a value that the setting refused, into the caller's text[0,n): "; write
   10000" for 10k where a whole number is wanted, and the like; "" without a guess.  Returns
   text. */
const char *mr_value_hint(const mr_opt_t *opt, const char *value, char *text, size_t n);

MR_END_DECLS

#endif
