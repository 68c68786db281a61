"""Messages of p4lang's PI that the package p4runtime lacks."""
