// Externs: constructors, overloads, generic and abstract methods, optional arguments, annotations.
@command_line("--x") @pragma_like
extern Store<T> {
    Store(bit<32> size);
    Store(bit<32> size, T first);
    T get(in bit<32> index);
    void put(in bit<32> index, @optional in T value);
    void put(in bit<32> index, in T value, in bool check);
    U convert<U>(in T value);
}
extern Balancer {
    Balancer();
    abstract bit<8> on_new_flow(in bit<32> address);
    abstract void both(inout bit<8> x, out bool y);
    bit<8> pick();
}
extern void f<T>(in T x, @optional out bit<8> y);
extern T g<T>();
extern bit<8> h(bit<8> compile_time, in bit<8> run_time = 8w4);
control Ctl<A>(inout A a);
package Pack<A>(Ctl<A> one, @optional Ctl<A> two, bit<8> number = 3);

@brief("structured") @list[1, "two", true] @pairs[a = 1, b = "x" ++ "y"] @empty[] @tokens(any tokens { } 8w3 "s")
@pragma old style 1 2
control impl(inout bit<8> a)() {
    Store<bit<8>>(4) plain;
    Store(16, 8w1) inferred;
    Store<bit<8>>(first = 3, size = 4) named;
    Balancer() balancer = {
        Store<bit<32>>(8) addresses;
        bit<8> on_new_flow(in bit<32> address) {
            addresses.put(0, address);
            return address[7:0] + this.pick();
        }
        void both(inout bit<8> x, out bool y) { x = 1; y = true; }
    };
    apply {
        plain.put(0);
        plain.put(0, 3);
        plain.put(0, 3, true);
        plain.put(value = a, index = 1);
        a = inferred.get(1);
        a = plain.convert<bit<8>>(3);
        a = (bit<8>)plain.convert<bit<16>>(a);
        f(a);
        f(a, _);
        f<bit<8>>(3, a);
        a = g<bit<8>>();
        a = h(3);
        a = h(3, a);
        a = balancer.pick() + named.get(0);
        bool y;
        balancer.both(a, y);
    }
}
Pack<bit<8>>(one = impl(), number = 4, two = impl()) other;
Pack(impl()) main;
