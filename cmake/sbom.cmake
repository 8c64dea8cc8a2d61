# What the wheel holds that is not this project's own Python code, for whoever looks for known weaknesses: PEP 770 has a
# place for it beside the metadata. Written when CMake configures; only a wheel has that place.
if(SKBUILD_METADATA_DIR)
  set(sbom "${CMAKE_CURRENT_BINARY_DIR}/coupledict.cdx.json")
  execute_process(
    COMMAND "${Python_EXECUTABLE}" "${CMAKE_CURRENT_SOURCE_DIR}/cmake/sbom.py" "${sbom}"
            --version "${SKBUILD_PROJECT_VERSION_FULL}" --nanobind "${nanobind_VERSION}" --nanobind-folder "${NB_DIR}"
            --compiler "${CMAKE_CXX_COMPILER_ID}" --compiler-version "${CMAKE_CXX_COMPILER_VERSION}"
    RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "Expected cmake/sbom.py to write ${sbom}, but it failed; its message is above.")
  endif()
  install(FILES "${sbom}" DESTINATION "${SKBUILD_METADATA_DIR}/sboms")
endif()
