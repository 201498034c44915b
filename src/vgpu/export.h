// What libmemmodel_vgpu.so shows to the stand-ins.
#ifndef MEMMODEL_SRC_VGPU_EXPORT_H_
#define MEMMODEL_SRC_VGPU_EXPORT_H_

#define MEMMODEL_VGPU_EXPORT __attribute__((visibility("default")))

#endif  // MEMMODEL_SRC_VGPU_EXPORT_H_
