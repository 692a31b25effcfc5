/* The facts about the machine, as a tree of names and values for users and programs.  Implemented
   in doctor_machine.c, and doctor_ring.c or without.c. */
#ifndef MR_APPS_DOCTOR_H
#define MR_APPS_DOCTOR_H

#include <cjson/cJSON.h>

/* Each adds one section (an object of texts and numbers) to the report.  Without memory entries are
   missing. */
void mr_doctor_processor(cJSON *report);
void mr_doctor_memory(cJSON *report);
void mr_doctor_io(cJSON *report, const char *folder); /* io_uring, and O_DIRECT in folder */
void mr_doctor_ring(cJSON *section); /* io_uring's abilities, if it is not refused */
void mr_doctor_gpu(cJSON *report);
void mr_doctor_libraries(cJSON *report);

/* Adds "name": text, formatted as by printf and cut at 511 bytes. */
void mr_doctor_say(cJSON *section, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
