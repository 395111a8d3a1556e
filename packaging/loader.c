/* What Python loads as the extension module of each compiled module: it lets the one library initialize that module.

One file is enough for all of them, since Python says which module it loads. mypyc would make a library of each. */

#include <Python.h>

static PyObject *
create(PyObject *spec, PyModuleDef *definition)
{
    PyObject *result = NULL, *mangled = NULL, *attribute = NULL, *capsule = NULL;
    PyObject *library = PyImport_ImportModule(LIBRARY);
    PyObject *name = PyObject_GetAttrString(spec, "name");
    if (library == NULL || name == NULL) {
        goto done;
    }
    /* exported_name of mypyc/namegen.py */
    mangled = PyObject_CallMethod(name, "replace", "ss", "___", "___3_");
    if (mangled == NULL) {
        goto done;
    }
    attribute = PyObject_CallMethod(mangled, "replace", "ss", ".", "___");
    if (attribute == NULL) {
        goto done;
    }
    Py_SETREF(attribute, PyUnicode_FromFormat("init_%U", attribute));
    if (attribute == NULL || (capsule = PyObject_GetAttr(library, attribute)) == NULL) {
        goto done;
    }
    void *initialize = PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule));
    if (initialize != NULL) {
        result = ((PyObject *(*)(void))initialize)();
    }
done:
    Py_XDECREF(library);
    Py_XDECREF(name);
    Py_XDECREF(mangled);
    Py_XDECREF(attribute);
    Py_XDECREF(capsule);
    return result;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_create, create},
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "compiled module",
    .m_slots = slots,
};

/* Python asks for the function that has the last part of the module's name. */
#define LOADS(last_part) \
    PyMODINIT_FUNC PyInit_##last_part(void) { return PyModuleDef_Init(&definition); }
