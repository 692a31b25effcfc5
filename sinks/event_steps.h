/* Which steps TensorBoard has numbers of, when it reads the event files of a folder. */
#ifndef MR_SINKS_EVENT_STEPS_H
#define MR_SINKS_EVENT_STEPS_H

#include "sinks/told_steps.h"

/* Adds to steps those that have a training number (a tag train/NAME), by the rules of
   TensorBoard's reader: files whose name holds "tfevents", in the order of their names; each up to
   its first record that is cut or has a wrong check sum; a start of a session takes back the steps
   from its own on.  MR_OK too where the folder does not exist.  MR_ERR_IO: the folder or a file
   cannot be read; MR_ERR_NOMEM. */
mr_err_t mr_event_steps(const char *dir, mr_told_steps_t *steps, mr_diag_t *diag);

#endif
