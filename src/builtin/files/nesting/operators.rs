// SPDX-License-Identifier: GPL-3.0-or-later
//! What the standard operators of Common Lisp take, as far as it tells where parentheses belong.

use std::collections::HashMap;
use std::sync::LazyLock;

/// What stands at a place in a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seat {
    Form,
    /// A symbol, or a list such as `(setf name)`.
    Name,
    /// Data, or a list of parameters, where it is a list.
    Data,
    /// A list, such as one of parameters.
    List,
    /// `((name value) ...)`, and one of these.
    Bindings,
    Binding,
    /// `((name parameters . body) ...)`, and one of these.
    Functions,
    Function,
    /// `(test . forms)`.
    Clause,
    /// `(keys . forms)`.
    Case,
    /// `(variable form ...)`.
    Iteration,
    /// No list.
    Text,
    Unknown,
}

impl Seat {
    fn of(letter: char) -> Self {
        match letter {
            'f' => Self::Form,
            'n' => Self::Name,
            'd' => Self::Data,
            'l' => Self::List,
            'b' => Self::Bindings,
            'F' => Self::Functions,
            'c' => Self::Clause,
            'k' => Self::Case,
            's' => Self::Text,
            'i' => Self::Iteration,
            _ => Self::Unknown,
        }
    }
}

/// What an operator takes.
#[derive(Debug)]
pub struct Operator {
    roles: Vec<Seat>,
    rest: Option<Seat>,
    pub least: usize,
    /// The argument from which on each stands on a line of its own, two columns into the form.
    pub body: Option<usize>,
    /// Whether all of its arguments stand below the first.
    pub is_function: bool,
    pub is_loop: bool,
    pub is_pairs: bool,
    /// Whether its parameters are its first list, and its body begins there.
    pub is_method: bool,
    /// Whether no data starts with its name.
    pub is_unmistakable: bool,
    pub defines: bool,
}

impl Operator {
    /// The role of the argument INDEX, if there may be one.
    #[must_use]
    pub fn role(&self, index: usize) -> Option<Seat> {
        self.roles.get(index).copied().or(self.rest)
    }

    /// Made from SPECIFICATION: a letter for each argument, `?` before those that may be left out, `|` before
    /// the body, `!` behind one that has to be there all the same, and `*` behind a last one that there may be more of.
    fn of(specification: &str) -> Self {
        let mut made = Self {
            roles: Vec::new(),
            rest: None,
            least: 0,
            body: None,
            is_function: false,
            is_loop: false,
            is_pairs: false,
            is_method: false,
            is_unmistakable: false,
            defines: false,
        };
        let mut required = true;
        for letter in specification.chars() {
            match letter {
                '?' => required = false,
                '|' => {
                    made.body = Some(made.roles.len());
                    required = false;
                }
                '!' => made.least = made.roles.len(),
                '*' => {
                    made.rest = made.roles.last().copied();
                    if made.least < made.roles.len() {
                        made.roles.pop();
                    }
                }
                _ => {
                    made.roles.push(Seat::of(letter));
                    if required {
                        made.least = made.roles.len();
                    }
                }
            }
        }
        made
    }
}

/// Operators by what they take.
const SPECIAL: &[(&str, &str)] = &[
    ("nl|f!*", "defun defmacro define-compiler-macro deftype"),
    ("nln?d", "define-modify-macro"),
    ("nl|u*", "defclass define-condition"),
    ("n|u*", "defstruct defpackage"),
    ("nl|u*", "defgeneric"),
    ("n?fd", "defvar defparameter defconstant"),
    ("l|f!*", "lambda"),
    ("b|f!*", "let let* handler-bind symbol-macrolet prog prog*"),
    ("F|f!*", "flet labels macrolet"),
    (
        "f|f!*",
        "when unless prog1 multiple-value-prog1 unwind-protect catch",
    ),
    ("ff?f", "if"),
    ("|f*", "progn locally"),
    ("|f!*", "ignore-errors"),
    ("f|k!*", "case ecase ccase typecase etypecase ctypecase"),
    ("?c*", "cond"),
    ("i|f*", "dolist dotimes do-symbols do-external-symbols"),
    ("uu|f*", "do do*"),
    ("lf|f!*", "multiple-value-bind destructuring-bind"),
    ("df|f!*", "with-slots with-accessors"),
    (
        "l|f!*",
        "with-open-file with-output-to-string with-input-from-string with-open-stream print-unreadable-object pprint-logical-block with-hash-table-iterator with-package-iterator",
    ),
    ("f|u*", "handler-case restart-case"),
    ("l|f*", "eval-when"),
    ("n|f*", "block"),
    ("n?f", "return-from"),
    ("df", "the multiple-value-setq"),
    ("d", "quote"),
    ("?f", "return"),
    ("n", "function"),
    ("fd?s", "check-type"),
    ("n", "in-package"),
    ("ff*", "multiple-value-call"),
    ("?d*", "declare declaim proclaim"),
    ("f", "multiple-value-list"),
];

/// Functions, and macros that look like them, by the fewest and the most arguments; 9: as many as you like.
const FUNCTIONS: &[(usize, usize, &str)] = &[
    (
        1,
        1,
        "princ-to-string prin1-to-string endp car cdr caar cadr cdar cddr caddr cdddr first second third fourth fifth rest not null atom consp listp symbolp stringp numberp integerp functionp characterp vectorp arrayp keywordp packagep hash-table-p pathnamep streamp realp zerop plusp minusp evenp oddp 1+ 1- abs length reverse nreverse symbol-name symbol-package symbol-function symbol-value fboundp boundp makunbound fmakunbound char-code code-char char-upcase char-downcase alpha-char-p upper-case-p lower-case-p both-case-p alphanumericp graphic-char-p char-name name-char class-of class-name type-of identity copy-list copy-tree copy-alist copy-seq list-length values-list constantly complement hash-table-count hash-table-test clrhash fdefinition package-name numerator denominator realpart imagpart signum array-rank array-dimensions array-total-size fill-pointer vector-pop pop sqrt exp sin cos integer-length lognot logcount characterp pathname namestring truename probe-file delete-file special-operator-p",
    ),
    (
        2,
        2,
        "cons eq eql equal equalp rplaca rplacd nthcdr nth elt svref schar char logtest logbitp set slot-value slot-boundp slot-makunbound remhash maphash expt ash ldb byte mod rem string-trim string-left-trim string-right-trim nth-value push array-dimension revappend nreconc vector-push",
    ),
    (
        1,
        2,
        "incf decf atan log last butlast floor ceiling round truncate get-macro-character intern find-symbol digit-char-p macroexpand random princ prin1 print write-char file-position upgraded-array-element-type constantp find-class",
    ),
    (2, 3, "get getf gethash typep subseq vector-push-extend"),
    (2, 2, "coerce"),
    (3, 3, "acons dpb"),
    (
        1,
        9,
        "write-to-string error warn signal funcall make-instance - / = /= < > <= >= max min char= char/= char< char> char<= char>= string make-array make-string make-list list* parse-integer read-from-string aref",
    ),
    (
        2,
        9,
        "apply mapcar mapc mapcan maplist mapl mapcon format remove remove-if remove-if-not delete delete-if delete-if-not find find-if find-if-not position position-if position-if-not count count-if count-if-not member member-if assoc assoc-if rassoc every some notany notevery reduce sort stable-sort search mismatch union intersection set-difference subsetp string= string-equal string/= string< string> cerror pushnew fill replace",
    ),
    (3, 9, "map substitute substitute-if subst"),
    (
        0,
        9,
        "and or list append nconc values vector + * setf psetf setq psetq gcd lcm logior logand logxor concatenate break make-hash-table terpri read read-line read-char",
    ),
];

/// The operator called NAME, in lower case and without a package.
#[must_use]
pub fn operator(name: &str) -> Option<&'static Operator> {
    static OPERATORS: LazyLock<HashMap<&str, Operator>> = LazyLock::new(|| {
        let mut all = HashMap::new();
        for (specification, names) in SPECIAL {
            for name in names.split(' ') {
                let mut operator = Operator::of(specification);
                operator.defines = name.starts_with("def");
                operator.is_unmistakable = !operator.defines
                    && (operator.body.is_some() || ["if", "cond", "declare"].contains(&name));
                all.insert(name, operator);
            }
        }
        for (least, most, names) in FUNCTIONS {
            for name in names.split(' ') {
                let operator = Operator {
                    roles: vec![Seat::Form; if *most == 9 { 0 } else { *most }],
                    rest: (*most == 9).then_some(Seat::Form),
                    least: *least,
                    is_function: true,
                    is_pairs: name.ends_with("setf") || name.ends_with("setq"),
                    ..Operator::of("")
                };
                all.insert(name, operator);
            }
        }
        let looping = Operator {
            is_loop: true,
            ..Operator::of("?u*")
        };
        all.insert("loop", looping);
        let method = Operator {
            is_method: true,
            defines: true,
            least: 2,
            ..Operator::of("n?u*")
        };
        all.insert("defmethod", method);
        all
    });
    OPERATORS.get(name)
}
