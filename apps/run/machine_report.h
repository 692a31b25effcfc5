/* The facts about the machine, as a tree of names and values for users and programs.  Implemented
   in machine_report.c, and machine_report_ring.c or without.c. */
#ifndef MR_APPS_RUN_MACHINE_REPORT_H
#define MR_APPS_RUN_MACHINE_REPORT_H

#include <cjson/cJSON.h>

/* Each adds one section (an object of texts and numbers) to the report.  Without memory entries are
   missing. */
void mr_report_processor(cJSON *report);
void mr_report_memory(cJSON *report);
void mr_report_io(cJSON *report, const char *folder); /* io_uring, and O_DIRECT in folder */
void mr_report_ring(cJSON *section); /* io_uring's abilities, if it is not refused */
void mr_report_gpu(cJSON *report);
void mr_report_devices(cJSON *report); /* of backends but the CPU's; asks their drivers */
void mr_report_libraries(cJSON *report);

/* Adds "name": text, formatted as by printf and cut at 511 bytes. */
void mr_report_say(cJSON *section, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#endif
