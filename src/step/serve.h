// The child's side of the protocol: one job, then a process for each probe.
#ifndef MEMMODEL_SRC_STEP_SERVE_H_
#define MEMMODEL_SRC_STEP_SERVE_H_

namespace memmodel::step {

// Serves the job of `job_line` with the probes that `in_fd` gives, until its end.
// Answers go to `out_fd`. Returns the process's exit code.
int Serve(const char* job_line, int in_fd, int out_fd);

}  // namespace memmodel::step

// Entry point of libmemmodel_step.so, looked up by memmodel-trace.
extern "C" __attribute__((visibility("default"))) int memmodel_step_serve(const char* job_line,
                                                                          int in_fd, int out_fd);

#endif  // MEMMODEL_SRC_STEP_SERVE_H_
