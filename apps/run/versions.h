/* The versions that a run depends on. */
#ifndef MR_APPS_RUN_VERSIONS_H
#define MR_APPS_RUN_VERSIONS_H

#include "base/err.h"

/* Writes the libraries and the processor that a run uses, as doctor reports them, to
   folder/versions.json, whole or not at all.  MR_ERR_IO or MR_ERR_NOMEM. */
mr_err_t mr_versions_save(const char *folder, mr_diag_t *diag);

/* The versions that decide bits, on one line: "millrace 0.1.0, oneDNN 3.1.1, glibc 2.36".  Static.
 */
const char *mr_versions_line(void);

#endif
