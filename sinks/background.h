/* Low priority for threads that serve network peers, so that no number of requests takes the
   processors from training. */
#ifndef MR_SINKS_BACKGROUND_H
#define MR_SINKS_BACKGROUND_H

/* Calls fn(arg) in a new thread of the lowest priority and returns when fn has returned.  Threads
   that fn starts inherit the priority.  If no thread can be started, calls fn in the calling
   thread. */
void mr_in_background(void (*fn)(void *arg), void *arg);

#endif
