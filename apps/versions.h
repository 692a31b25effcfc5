/* What a run is made with, kept in its folder as versions.json: millrace doctor's words on the
   libraries and the processor. */
#ifndef MR_APPS_VERSIONS_H
#define MR_APPS_VERSIONS_H

#include "base/err.h"

mr_err_t mr_versions_save(const char *folder, mr_diag_t *diag);

#endif
