/* Marks: an event behind all commands given so far, by which the host learns that they are done, or
   that one of them failed. */
#include <stdlib.h>

#include "model/backends/opencl/device.h"

/* What the device says about a failure that was met at any time before. */
static mr_err_t mark_verdict(const mr_device_t *device, cl_int code, mr_diag_t *diag) {
  if (code != CL_SUCCESS) mr__opencl_failed(mr__opencl_device(device), code, "a run");
  return mr__opencl_usable(device, diag);
}

/* Without an event the queue is finished here: what waits for no mark waits for the other queue,
   and host memory must not be given back while a copy reads it. */
static void *mark_behind(mr_opencl_device_t *d, cl_command_queue q) {
  cl_event event = NULL;
  cl_int code = d->cl->clEnqueueMarkerWithWaitList(q, 0, NULL, &event);
  if (code != CL_SUCCESS)
    event = NULL, d->cl->clFinish(q);
  else
    code = d->cl->clFlush(q);
  if (code != CL_SUCCESS) mr__opencl_failed(d, code, "a mark");
  return event;
}

void *mr__opencl_mark(const mr_device_t *device) {
  mr_opencl_device_t *d = mr__opencl_device(device);
  return mark_behind(d, d->queue);
}

void *mr__opencl_mark_beside(const mr_device_t *device, mr_copy_way_t way) {
  mr_opencl_device_t *d = mr__opencl_device(device);
  void *mark = mark_behind(d, d->copies[way]);
  if (!mark) d->cl->clFinish(d->copies[way]);
  return mark;
}

/* Commands of `later` that are given from here on begin when those of `first` so far are done. */
static void mark_order(mr_opencl_device_t *d, cl_command_queue first, cl_command_queue later) {
  cl_event event = mark_behind(d, first);
  if (!event) return;
  cl_int code = d->cl->clEnqueueBarrierWithWaitList(later, 1, &event, NULL);
  if (code != CL_SUCCESS) mr__opencl_failed(d, code, "a wait of one queue for another");
  d->cl->clReleaseEvent(event);
}

void mr__opencl_follow_beside(const mr_device_t *device, mr_copy_way_t way) {
  mr_opencl_device_t *d = mr__opencl_device(device);
  mark_order(d, d->queue, d->copies[way]);
}

void mr__opencl_wait_beside(const mr_device_t *device, mr_copy_way_t way) {
  mr_opencl_device_t *d = mr__opencl_device(device);
  mark_order(d, d->copies[way], d->queue);
}

mr_err_t mr__opencl_reached(const mr_device_t *device, void *mark, bool wait, mr_diag_t *diag) {
  mr_opencl_device_t *d = mr__opencl_device(device);
  cl_event event = mark;
  cl_int code, status = CL_COMPLETE;
  if (!event) return mark_verdict(device, d->cl->clFinish(d->queue), diag);
  code = wait ? d->cl->clWaitForEvents(1, &event) : CL_SUCCESS;
  if (code == CL_SUCCESS)
    code = d->cl->clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status,
                                 NULL);
  if (code == CL_SUCCESS && status > CL_COMPLETE) return MR_AGAIN;
  d->cl->clReleaseEvent(event);
  return mark_verdict(device, code != CL_SUCCESS ? code : status, diag);
}
