/* How a stand-in's functions that are accepted or refused report themselves. C,
 * since the generated functions are C. Exported by libmemmodel_vgpu.so. */
#ifndef MEMMODEL_SRC_VGPU_CALLS_H_
#define MEMMODEL_SRC_VGPU_CALLS_H_

#ifdef __cplusplus
extern "C" {
#endif

/* One for each such function, static, zero but for the name. */
struct memmodel_vgpu_call {
  const char* name;
  unsigned long count;
  struct memmodel_vgpu_call* next;
};

/* Counts a call that was accepted: it did nothing, and may have launched
 * something that writes device memory. */
void memmodel_vgpu_accept(struct memmodel_vgpu_call* call);
/* Counts and logs a call that was refused. */
void memmodel_vgpu_refuse(struct memmodel_vgpu_call* call);
/* Counts and logs an answer that is not what the real library gives, but near it. */
void memmodel_vgpu_approximate(struct memmodel_vgpu_call* call);
/* An opaque handle, distinct from all others of this process, for the function
 * of that name. Never freed. */
void* memmodel_vgpu_new_handle(const char* function);

#ifdef __cplusplus
}
#endif

#endif /* MEMMODEL_SRC_VGPU_CALLS_H_ */
