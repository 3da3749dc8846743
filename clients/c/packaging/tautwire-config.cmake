# find_package(tautwire): the target tautwire::tautwire, wherever the folder that this was installed to is now.
if(NOT TARGET tautwire::tautwire)
  get_filename_component(_tautwire_lib "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
  get_filename_component(_tautwire_prefix "${_tautwire_lib}/.." ABSOLUTE)
  add_library(tautwire::tautwire STATIC IMPORTED)
  set_target_properties(tautwire::tautwire PROPERTIES
    IMPORTED_LOCATION "${_tautwire_lib}/libtautwire.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_tautwire_prefix}/include"
    INTERFACE_COMPILE_DEFINITIONS "TW_SCRAM=512")
  unset(_tautwire_lib)
  unset(_tautwire_prefix)
endif()
