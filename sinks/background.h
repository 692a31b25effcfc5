/* Threads that answer strangers must not take the processors from training, however much they are
   asked: they run at the lowest priority. */
#ifndef MR_SINKS_BACKGROUND_H
#define MR_SINKS_BACKGROUND_H

/* Calls fn(arg) in a thread of the lowest priority, which the threads that fn starts inherit, and
   returns when it has returned; where there is no such thread to be had, calls it here. */
void mr_in_background(void (*fn)(void *arg), void *arg);

#endif
