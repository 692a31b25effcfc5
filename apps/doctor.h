/* The facts about the machine, as a tree of names and values for users and programs.  Implemented
   in doctor_machine.c, doctor_store.c, and doctor_ring.c or without.c; the versions of a run in
   doctor.c. */
#ifndef MR_APPS_DOCTOR_H
#define MR_APPS_DOCTOR_H

#include <cjson/cJSON.h>

#include "base/err.h"
#include "pipeline/stage.h"

/* Each adds one section (an object of texts and numbers) to the report.  Without memory entries are
   missing. */
void mr_doctor_processor(cJSON *report);
void mr_doctor_memory(cJSON *report);
void mr_doctor_io(cJSON *report, const char *folder); /* io_uring, and O_DIRECT in folder */
void mr_doctor_ring(cJSON *section); /* io_uring's abilities, if it is not refused */
void mr_doctor_gpu(cJSON *report);
void mr_doctor_devices(cJSON *report); /* of backends but the CPU's; asks their drivers */
void mr_doctor_libraries(cJSON *report);

/* Reads the value of --rate: a number of records a second, or the folder of a run whose newest
   steps say it; 0 for NULL.  MR_ERR_USAGE for anything else. */
mr_err_t mr_doctor_rate(const char *given, double *rate, mr_diag_t *diag);

/* Measures the servers of a source, if it reads from any, and compares them with a model that takes
   `rate` records a second (0: unknown).  Takes several seconds. */
void mr_doctor_store(cJSON *report, mr_stage_t *s, double rate);

/* Adds "name": text, formatted as by printf and cut at 511 bytes. */
void mr_doctor_say(cJSON *section, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes the libraries and the processor that a run uses, as doctor reports them, to
   folder/versions.json, whole or not at all.  MR_ERR_IO or MR_ERR_NOMEM. */
mr_err_t mr_versions_save(const char *folder, mr_diag_t *diag);

/* The versions that decide bits, on one line: "millrace 0.1.0, oneDNN 3.1.1, glibc 2.36".  Static.
 */
const char *mr_versions_line(void);

#endif
