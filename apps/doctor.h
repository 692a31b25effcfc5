/* What the machine has, as a tree of names and values, for people and for programs. */
#ifndef MR_APPS_DOCTOR_H
#define MR_APPS_DOCTOR_H

#include <cjson/cJSON.h>

/* Each adds one section (an object of texts and numbers) to the report. */
void mr_doctor_processor(cJSON *report);
void mr_doctor_memory(cJSON *report);
void mr_doctor_io(cJSON *report, const char *folder); /* io_uring, and O_DIRECT where folder lies */
void mr_doctor_ring(cJSON *section); /* where io_uring is not refused: what it can do here */
void mr_doctor_gpu(cJSON *report);
void mr_doctor_libraries(cJSON *report);

/* Adds "name": text made as by printf, of at most 511 bytes. */
void mr_doctor_say(cJSON *section, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
