# Finds LibTorch (the CUDA build of a torch wheel or of libtorch) and the NVIDIA headers it needs.
#
# MEMMODEL_TORCH_ROOT   the folder that holds include/ and lib/ of torch; by default the torch that
#                       python3 on PATH imports
# MEMMODEL_CUDA_INCLUDE cuda_runtime_api.h, cuda.h, cublas headers; MEMMODEL_CUDNN_INCLUDE: cudnn.h. By default
#                       the nvidia wheels beside torch, else a CUDA toolkit in /usr/local/cuda or CUDA_HOME
# MEMMODEL_CUDA12_INCLUDE cuda_runtime_api.h of CUDA 12, for the stand-ins that `memmodel run` needs with a torch built for CUDA 12; by
#                       default the environment variable of that name, else the wheel nvidia-cuda-runtime-cu12 beside torch. Without it
#                       they are left out
#
# Defines the interface targets memmodel_torch, memmodel_cuda_headers and, with those headers, memmodel_cuda12_headers. No GPU library of NVIDIA is linked: the
# child loads the virtual GPU, or the real libraries, when it starts.
set(MEMMODEL_TORCH_ROOT "" CACHE PATH "Folder of torch with include/ and lib/")
set(MEMMODEL_HAVE_TORCH OFF)

if(NOT MEMMODEL_BUILD_TRACER)
  return()
endif()

if(NOT MEMMODEL_TORCH_ROOT AND DEFINED ENV{MEMMODEL_TORCH_ROOT})
  set(MEMMODEL_TORCH_ROOT $ENV{MEMMODEL_TORCH_ROOT} CACHE PATH "" FORCE)
endif()
if(NOT MEMMODEL_TORCH_ROOT)
  execute_process(
    COMMAND python3 -c "import importlib.util as u, os; print(os.path.dirname(u.find_spec('torch').origin))"
    OUTPUT_VARIABLE found OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(MEMMODEL_TORCH_ROOT ${found} CACHE PATH "" FORCE)
  endif()
endif()
if(NOT MEMMODEL_TORCH_ROOT)
  message(FATAL_ERROR "No torch found. Give -DMEMMODEL_TORCH_ROOT=<folder with include/ and lib/>, put a python3 with a CUDA torch on "
                      "PATH, or build the core alone with -DMEMMODEL_BUILD_TRACER=OFF.")
endif()
if(NOT EXISTS ${MEMMODEL_TORCH_ROOT}/lib/libtorch_cuda.so)
  message(FATAL_ERROR "${MEMMODEL_TORCH_ROOT} holds no lib/libtorch_cuda.so: a CUDA build of torch is needed, not a CPU-only one.")
endif()

get_filename_component(site_packages ${MEMMODEL_TORCH_ROOT} DIRECTORY)
find_path(MEMMODEL_CUDA_INCLUDE cuda_runtime_api.h
  HINTS ${site_packages}/nvidia/cu13/include ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES include NO_DEFAULT_PATH)
find_path(MEMMODEL_CUDNN_INCLUDE cudnn.h
  HINTS ${site_packages}/nvidia/cudnn/include ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES include)
if(NOT MEMMODEL_CUDA_INCLUDE OR NOT MEMMODEL_CUDNN_INCLUDE)
  message(FATAL_ERROR "CUDA or cuDNN headers not found: install the wheels nvidia-cuda-runtime, nvidia-cuda-crt, nvidia-cublas and nvidia-cudnn-cu13 beside "
                      "torch, or give -DMEMMODEL_CUDA_INCLUDE and -DMEMMODEL_CUDNN_INCLUDE.")
endif()

add_library(memmodel_cuda_headers INTERFACE)
target_include_directories(memmodel_cuda_headers SYSTEM INTERFACE ${MEMMODEL_CUDA_INCLUDE} ${MEMMODEL_CUDNN_INCLUDE})

find_path(MEMMODEL_CUDA12_INCLUDE cuda_runtime_api.h
  HINTS ENV MEMMODEL_CUDA12_INCLUDE ${site_packages}/nvidia/cuda_runtime/include NO_DEFAULT_PATH)
if(MEMMODEL_CUDA12_INCLUDE)
  file(STRINGS ${MEMMODEL_CUDA12_INCLUDE}/cuda_runtime_api.h cuda12 REGEX "define CUDART_VERSION +12")
  if(NOT cuda12)
    message(FATAL_ERROR "${MEMMODEL_CUDA12_INCLUDE}/cuda_runtime_api.h (MEMMODEL_CUDA12_INCLUDE) is not of CUDA 12.")
  endif()
  # The runtime's wheel lacks crt/host_defines.h; CUDA 13's gives the host the same definitions.
  add_library(memmodel_cuda12_headers INTERFACE)
  target_include_directories(memmodel_cuda12_headers SYSTEM INTERFACE
    ${MEMMODEL_CUDA12_INCLUDE} ${MEMMODEL_CUDA_INCLUDE} ${MEMMODEL_CUDNN_INCLUDE})
else()
  message(STATUS "No headers of CUDA 12 (MEMMODEL_CUDA12_INCLUDE): memmodel run will take scripts with a torch for CUDA 13 only")
endif()

add_library(memmodel_torch INTERFACE)
target_include_directories(memmodel_torch SYSTEM INTERFACE
  ${MEMMODEL_TORCH_ROOT}/include ${MEMMODEL_TORCH_ROOT}/include/torch/csrc/api/include ${MEMMODEL_CUDA_INCLUDE})
# NDEBUG: the release LibTorch has another layout of RecordFunction without it.
target_compile_definitions(memmodel_torch INTERFACE NDEBUG)
target_link_directories(memmodel_torch INTERFACE ${MEMMODEL_TORCH_ROOT}/lib)
target_link_options(memmodel_torch INTERFACE -Wl,--allow-shlib-undefined -Wl,--no-as-needed
  -Wl,-rpath,${MEMMODEL_TORCH_ROOT}/lib)
target_link_libraries(memmodel_torch INTERFACE torch torch_cuda c10_cuda torch_cpu c10)
set(MEMMODEL_HAVE_TORCH ON)
message(STATUS "torch: ${MEMMODEL_TORCH_ROOT}; CUDA headers: ${MEMMODEL_CUDA_INCLUDE}; cuDNN headers: ${MEMMODEL_CUDNN_INCLUDE}")
