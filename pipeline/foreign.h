/* Names of other frameworks (torch, torchvision, tf.data, Keras, GStreamer) and spellings of values
   that are common there: what to write here instead.  Every function is pure and may be called from
   any thread; strings it returns without a buffer of the caller's are constants. */
#ifndef MR_PIPELINE_FOREIGN_H
#define MR_PIPELINE_FOREIGN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/decls.h"
#include "pipeline/opt.h"

MR_BEGIN_DECLS

/* Bytes for any hint of this file. */
enum { MR_HINT_MAX = 256 };

/* What stands for a stage that others call name ("take", "RandomHorizontalFlip", "videoconvert"): a
   sentence without a period, or NULL for a name that is not in the table.  Upper case, '-' and '_'
   do not matter. */
const char *mr_foreign_stage(const char *name);

/* The name that a setting has here, "lr" for "learning_rate", into ours[0,n): of the candidates the
   first for which known(ctx, candidate) holds.  False if there is none; ours is then unspecified.
 */
bool mr_foreign_setting(const char *name, bool (*known)(const void *ctx, const char *ours),
                        const void *ctx, char *ours, size_t n);

/* Why a setting of others has no counterpart here, without a period ("pin_memory"), or NULL. */
const char *mr_foreign_missing(const char *name);

/* True if the word is one of the choices "a|b|c". */
bool mr_is_choice(const char *choices, const char *word);

/* "; write 10000" for 10k where a whole number is wanted, and the like: how to write the value that
   was probably meant, into text[0,n), or "".  value: what the setting refused.  Returns text. */
const char *mr_value_hint(const mr_opt_t *opt, const char *value, char *text, size_t n);

MR_END_DECLS

#endif
