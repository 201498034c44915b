// All processes that come from this one: a script starts others (torchrun's workers
// have sessions of their own), and none may outlive memmodel.
#ifndef MEMMODEL_SRC_RUN_DESCENDANTS_H_
#define MEMMODEL_SRC_RUN_DESCENDANTS_H_

namespace memmodel {

// From now on orphans among them become children of this process, and so can be
// found. True on success (Linux).
bool AdoptDescendants();

// Asks all of them to end (SIGTERM), waits up to `grace_s` seconds, then kills and
// reaps those that are left.
void EndDescendants(double grace_s);

}  // namespace memmodel

#endif  // MEMMODEL_SRC_RUN_DESCENDANTS_H_
