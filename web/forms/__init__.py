"""The console's forms, one module for each part of the console.

A form defines its fields, their labels and the text that they take. The actions have the rules for values: the form
asks them, or shows their refusals at the fields that they name.
"""
