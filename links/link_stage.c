/* Settings and reports that link-in, link-out and source share: a link's configuration from the
   settings, their check before anything connects, and notices about peers that were refused. */
#include "links/link_stage.h"

#include <string.h>

#include "base/err.h"
#include "base/loopback.h"

mr_link_cfg_t mr_link_cfg(const mr_link_settings_t *t) {
  return (mr_link_cfg_t){.name = t->link,
                         .address = t->address,
                         .bind = t->bind,
                         .key = t->key,
                         .peers = t->peers,
                         .window = (int)t->window,
                         .linger_ms = (int)t->linger};
}

void mr_link_report_refusals(const mr_stage_t *s, const mr_link_t *link, int64_t *reported) {
  enum { MOST = 8 };
  mr_link_stats_t now;
  mr_link_stats(link, &now);
  if (now.refused == *reported) return;
  if (*reported < MOST)
    mr_notice("%s: refused a peer: %s%s", s->name, mr_link_refusal(link),
              now.refused >= MOST ? "; later refusals are not reported" : "");
  *reported = now.refused;
}

mr_err_t mr_link_settings_check(mr_stage_t *s, const mr_link_settings_t *t, const char *setting) {
  if (!t->link || !*t->link || strlen(t->link) >= MR_LINK_NAME_MAX)
    return mr_stage_fail(s, MR_ERR_CONFIG, "setting link: want a name of less than %d letters",
                         MR_LINK_NAME_MAX);
  const char *a = t->address ? t->address : "";
  if (!mr_address_is_one(a))
    return mr_stage_fail(s, MR_ERR_CONFIG,
                         "%s = %s: want tcp://HOST:PORT with a PORT in [1,65535], ipc://@NAME or "
                         "ipc://FILE",
                         setting, *a ? a : "\"\"");
  return MR_OK;
}
