#include "stages/link_stage.h"

#include <string.h>

mr_link_cfg_t mr_link_cfg(const mr_link_settings_t *t) {
  return (mr_link_cfg_t){.name = t->link,
                         .address = t->address,
                         .bind = t->bind,
                         .key = t->key,
                         .peers = t->peers,
                         .window = (int)t->window,
                         .linger_ms = (int)t->linger};
}

mr_err_t mr_link_settings_check(mr_stage_t *s, const mr_link_settings_t *t) {
  if (!t->link || !*t->link || strlen(t->link) >= MR_LINK_NAME_MAX)
    return mr_stage_fail(s, MR_ERR_CONFIG, "setting link: want a name of less than %d letters",
                         MR_LINK_NAME_MAX);
  if (!t->address || !*t->address)
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "setting address: want tcp://HOST:PORT, ipc://@NAME or ipc://FILE");
  return MR_OK;
}
