/* Slots: blocks of a device that batches are copied to, ahead of the steps that read them
   (mr_train_config_t.there).  Each slot is a block of its own, because a driver may run commands on
   one block one after the other.

   One thread fills slots; any may compute with their addresses. */
#ifndef MR_MODEL_TRAIN_SLOTS_H
#define MR_MODEL_TRAIN_SLOTS_H

#include "base/decls.h"
#include "model/exec/backend.h"

MR_BEGIN_DECLS

/* What to-device takes unless its setting says otherwise, and at most. */
enum { MR_SLOTS_USUAL = 5, MR_SLOTS_MAX = 64 };

typedef struct mr_slots mr_slots_t;

/* Takes n slots, each with room for n_fields fields of field_bytes[i] bytes.  The caller destroys
 *out.  d is no host's backend.  MR_OK; MR_ERR_NOMEM names the bytes and what is free. */
mr_err_t mr_slots_create(const mr_device_t *d, int n, int n_fields, const size_t *field_bytes,
                         mr_slots_t **out, mr_diag_t *diag);
/* Gives the blocks back when the copies into them and the commands so far are done, for which it
   does not wait.  NULL is fine. */
void mr_slots_destroy(mr_slots_t *s);

/* Returns the device's address of field i in slot k: aligned as the backend says, valid as long as
   s, never NULL. */
void *mr_slots_at(const mr_slots_t *s, int k, int i);
/* Returns the bytes that n such slots take on the device. */
size_t mr_slots_bytes(const mr_device_t *d, int n, int n_fields, const size_t *field_bytes);

/* Begins to copy bytes[i] bytes of each field into slot k, which no command that is under way may
   use, and returns at once.  Until mr_slots_filled has returned MR_OK for the result, the host's
   bytes must stay as they are and no command may use the slot.  Returns a mark, which
   mr_slots_filled takes. */
void *mr_slots_fill(mr_slots_t *s, int k, const void *const *field, const size_t *bytes);
/* Whether the copies before a mark are done, for which wait blocks: MR_OK; MR_AGAIN, only without
   wait: not yet; or the device's failure.  The mark is spent unless MR_AGAIN. */
mr_err_t mr_slots_filled(const mr_slots_t *s, void *mark, bool wait, mr_diag_t *diag);

MR_END_DECLS

#endif
