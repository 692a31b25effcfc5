/* The steps for which TensorBoard finds numbers in the event files of a folder. */
#ifndef MR_SINKS_EVENT_STEPS_H
#define MR_SINKS_EVENT_STEPS_H

#include "sinks/resume.h"

/* Adds the steps that have a training number (a tag train/NAME), by the rules of TensorBoard's
   reader: it reads files whose name contains "tfevents", in the order of their names, each up to
   its first record that is cut or has a wrong checksum; the start of a session removes the steps
   from its own on.  MR_OK also if the folder does not exist; MR_ERR_IO if the folder or a file
   cannot be read; MR_ERR_NOMEM.  After a failure steps may have some of them. */
mr_err_t mr_event_steps(const char *dir, mr_told_steps_t *steps, mr_diag_t *diag);

#endif
