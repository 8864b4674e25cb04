"""A file of joblib, which is not in the environment of the tests."""

import base64
import zlib

# joblib.dump of `w`: an array in Fortran's order, `o`: one of objects, `r`: one of records, and `step`: 3.
PACKED = (
    "c-n=L%SyyB6o#9*;5aIdC@P2xcV3|2PC;-)aAB~53tdS`JJD2oBW=+Eg_(up3<O+w`f@&nZ=h*1qmC{-izKK0Px77rbSn9qq2m$O1-b(<e-k;r"
    "=a^v@#BDqF+*_Z5n6rxXfOFEm;3SSIhgaC>LQz#qGRO5vl7OhHDi9N4ixgTZ64iu}m;x^0a!+OvZ^>eTj^w$Ow&fpI8=a)ObhQJ6{xh7xIxY*e"
    "2bN_Wf5=b^Hd1gzo%nuqX9od^p)Xc6sd~>QzIPo4G)!%$ozetwBXjB>Utx?zt*Q6-eZ4n^xiQ=qn)%7_i$D>uif))qusWN<r6*uB0v!UIWpko*"
    "I>!C*i+f*kv!wxBE`U1K{AG0SqM|o#H{#R`GC%dSabnu$)Q!R<<(Zo*AOCubjVCxn4(Ml*LMs0>^M9zpWifXG7L|#acfb1Ozxzc+zid@^d%pX9"
    "F<Y|)3gt-ep{Mklg~Hn&Q~a4CHhRFe*aAj9$nd13ZzzxY+M}wP7t%D9W<E6nt0XCn0hcrL6Q(Hxss"
)
JOBLIB = zlib.decompress(base64.b85decode(PACKED))
