;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; Frames of a stack: each as one line, "(FOO 1)", however the implementation shows them; what they
;;; call, the package of that code, and where in the source they stopped.

(cl:in-package "AGENT-Q-IMAGE")

(defun printed-frame (frame &optional (writer (lambda (frame stream)
                                                (backend "PRINT-FRAME" frame stream))))
  (let* ((*package* (find-package "COMMON-LISP-USER"))
         (text (string-trim '(#\Space #\Newline)
                            (printed frame :limit 300 :length 6 :level 3 :writer writer)))
         (remark (search " [external]" text)))
    (subseq text 0 remark)))

(defun ecl-frame-text (frame)
  "The text of FRAME on ECL, which gives only the function. Anonymous functions are called LAMBDA
and a number there."
  (let* ((function (first frame))
         (name (if (functionp function) (backend "FUNCTION-NAME" function) function)))
    (format nil "(~A)"
            (cond ((consp name) (printed name :limit 200))
                  ((or (null name) (null (symbol-package name))
                       (eql 0 (search "LAMBDA" (symbol-name name))))
                   "LAMBDA")
                  (t (symbol-text name))))))

(defun without-quotes (call)
  "CALL, a text, without the quotes that CLISP puts before arguments."
  (with-output-to-string (stream)
    (loop for last = #\( then character
          for character across call
          unless (and (char= character #\') (char= last #\Space))
            do (write-char character stream))))

(defun clisp-frame-text (frame)
  "The text of FRAME on CLISP, or NIL. CLISP has frames for blocks, tags and each interpreted form.
Calls are shown, with arguments if the function is interpreted."
  (let* ((text (printed-frame frame))
         (line (subseq text 0 (position #\Newline text)))
         (call (search "APPLY frame for call (" text)))
    (flet ((name-after (mark)
             (let* ((found (search mark line))
                    (start (and found (+ found (length mark))))
                    (end (and start (position #\> line :start start))))
               (and end
                    (not (eql start (search "#:" line :start2 start)))
                    (not (eql start (search "NIL>" line :start2 start)))
                    (format nil "(~A)" (subseq line start end))))))
      (cond ((search "APPLY frame for call (:LAMBDA" text) nil)
            (call (without-quotes (substitute #\Space #\Newline (subseq text (+ call 21)))))
            (t (or (name-after "#<COMPILED-FUNCTION ") (name-after "#<SYSTEM-FUNCTION ")))))))

;;; SBCL shows a keyword argument that wasn't passed, and so has its default, as NIL. If the default
;;; is more than a constant, the frame also has its supplied-p variable.

(defun missing-keywords (frame)
  "Two values for FRAME, on SBCL: the keywords that are known not to have been passed, and how many
keyword arguments it shows."
  (let ((place (internal "SB-DI" "FRAME-CODE-LOCATION" frame))
        (keywords (remove :keyword (internal "SB-DI" "DEBUG-FUN-LAMBDA-LIST"
                                             (internal "SB-DI" "FRAME-DEBUG-FUN" frame))
                          :key (lambda (element) (and (consp element) (first element)))
                          :test-not #'eq)))
    (flet ((absent-p (variable)
             (and variable
                  (not (eq variable :deleted))
                  (eq :valid (internal "SB-DI" "DEBUG-VAR-VALIDITY" variable place))
                  (member (internal "SB-DI" "DEBUG-VAR-VALUE" variable frame) '(nil 0)))))
      (values (loop for (nil keyword nil given) in keywords
                    when (absent-p given) collect keyword)
              (length keywords)))))

(defun not-passed-value-p (value)
  "Whether VALUE is what SBCL shows for an argument that wasn't passed, or wasn't kept."
  (or (null value)
      (and (typep value 'structure-object)
           (string= "UNPRINTABLE-OBJECT" (symbol-name (type-of value))))))

(defun without-missing (arguments missing count)
  "ARGUMENTS, as SBCL has them, without those for the keywords MISSING among the last COUNT."
  (let ((start (- (length arguments) (* 2 count))))
    (when (and (>= start 0)
               (loop for (keyword) on (nthcdr start arguments) by #'cddr always (keywordp keyword)))
      (append (subseq arguments 0 start)
              (loop for (keyword value) on (nthcdr start arguments) by #'cddr
                    unless (and (not-passed-value-p value) (member keyword missing))
                      append (list keyword value))))))

(defun frame-text-of-given (frame)
  "The text of FRAME, on SBCL, without the arguments that weren't passed; NIL if all were."
  (multiple-value-bind (missing count) (missing-keywords frame)
    (when missing
      (multiple-value-bind (name arguments) (internal "SB-DEBUG" "FRAME-CALL" frame)
        (let ((given (and (listp arguments) (without-missing arguments missing count))))
          (when given
            (printed-frame frame (lambda (frame stream)
                                   (declare (ignore frame))
                                   (format stream "(~S~{ ~S~})" name given)))))))))

(defun sbcl-frame-text (frame)
  (or (guarded (lambda () (frame-text-of-given frame)) (constantly nil))
      (printed-frame frame)))

(defun interpreter-frame-p (frame)
  "Whether FRAME is of SBCL's interpreter, which runs our half at first. The arguments of such frames
take long to print."
  (let ((name (ignore-errors
               (internal "SB-DI" "DEBUG-FUN-NAME" (internal "SB-DI" "FRAME-DEBUG-FUN" frame)))))
    (labels ((of-interpreter-p (name)
               (if (consp name)
                   (some #'of-interpreter-p (rest name))
                   (and (symbolp name) (eq (symbol-package name) (find-package "SB-EVAL"))))))
      (of-interpreter-p name))))

(defun frame-text (frame)
  "The call in FRAME as text; NIL if it is not a call, or nobody wants to see it."
  (cond ((implementation-p "SBCL") (if (interpreter-frame-p frame) nil (sbcl-frame-text frame)))
        ((implementation-p "ECL") (ecl-frame-text frame))
        ((implementation-p "CLISP") (clisp-frame-text frame))
        (t (printed-frame frame))))

;;; What is called

(defun frame-operator (text)
  "The part of a frame's TEXT that says what was called: \"(FOO\" or \"((LAMBDA (X) :IN FOO)\"."
  (dolist (caller '("(FUNCALL " "(APPLY "))
    (when (and (eql 0 (search caller text)) (< (length caller) (length text)))
      (return-from frame-operator
        (frame-operator (concatenate 'string "(" (subseq text (length caller)))))))
  (if (eql 0 (search "((" text))
      (loop with depth = 0
            for character across text
            for end from 0
            do (case character (#\( (incf depth)) (#\) (decf depth)))
            until (and (char= character #\)) (= depth 1))
            finally (return (subseq text 0 (min (1+ end) (length text)))))
      (subseq text 0 (position-if (lambda (character) (find character " )")) text))))

(defun operator-words (operator)
  (flet ((blank-p (character) (find character "()' ")))
    (let ((words '()) (end 0))
      (loop
        (let ((start (position-if-not #'blank-p operator :start end)))
          (unless start (return (nreverse words)))
          (setf end (or (position-if #'blank-p operator :start start) (length operator)))
          (push (subseq operator start end) words))))))

(defun operator-name (operator)
  "The program's function that OPERATOR belongs to, as a word, or NIL: not a parameter or a class in
it. A local function at the top of a file belongs to none, so that is its own."
  (let* ((in (search " :IN " operator :from-end t))
         (outer (and in (operator-words (subseq operator (+ in 5)))))
         (words (operator-words (subseq operator 0 in))))
    (flet ((word-p (name) (member (first words) name :test #'string=)))
      (cond ((and outer (char/= (char (first outer) 0) #\"))
             (operator-name (format nil "(~{~A~^ ~}" outer)))
            ((and in (word-p '("FLET" "LABELS"))) (second words))
            ((word-p '("LAMBDA" "FLET" "LABELS")) nil)
            ((and (word-p '(":METHOD" "SB-PCL::FAST-METHOD" "SB-PCL::SLOW-METHOD" "METHOD" "SETF"
                            "MACRO-FUNCTION" "COMPILER-MACRO"))
                  (rest words))
             (operator-name (format nil "(~{~A~^ ~}" (rest words))))
            (t (first words))))))

(defun word-package (word)
  "The package of WORD, a symbol as written in CL-USER; NIL if it isn't a symbol."
  (let ((colon (position #\: word)))
    (cond ((char= (char word 0) #\") nil)
          (colon (find-package (subseq word 0 colon)))
          (t (let ((symbol (find-symbol word "COMMON-LISP-USER")))
               (and symbol (symbol-package symbol)))))))

(defun program-package-p (package)
  (not (or (member (package-name package)
                   '("COMMON-LISP" "KEYWORD" "SYSTEM" "EXT" "EXTENSIONS" "SI" "CLOS" "MOP" "JAVA")
                   :test #'string=)
           (loop for prefix in '("SB-" "SWANK" "SLYNK" "AGENT-Q-IMAGE")
                   thereis (prefixed-p prefix (package-name package))))))

(defparameter *test-framework-packages*
  '(("FiveAM" ("IT.BESE.FIVEAM") "FIVEAM") ("Parachute" ("ORG.SHIRAKUMO.PARACHUTE"))
    ("Rove" ("ROVE/CORE/RESULT") "ROVE") ("Prove" ("PROVE.REPORT") "PROVE")
    ("Lisp-Unit" ("LISP-UNIT")) ("Lisp-Unit2" ("LISP-UNIT2")) ("CLUnit2" ("CLUNIT" "CLUNIT2"))
    ("RT" ("REGRESSION-TEST" "SB-RT")) ("Fiasco" ("FIASCO")) ("1AM" ("1AM")) ("Try" () "TRY"))
  "Lists of a test framework's title, the packages that have its results, and other packages whose
names begin those of its code.")

(defun test-framework-package-p (package)
  (let ((name (package-name package)))
    (loop for (nil packages . more) in *test-framework-packages*
            thereis (loop for prefix in (append packages more)
                            thereis (and (prefixed-p prefix name)
                                         (or (= (length name) (length prefix))
                                             ;; ROVE/CORE/RESULT
                                             (find (char name (length prefix)) "/.")))))))

(defun operator-package (operator)
  "The program's package that a name in OPERATOR is from: its code is read in that package."
  (loop for word in (operator-words operator)
        for package = (word-package word)
        when (and package (program-package-p package))
          return package))

;;; Where it stopped

(defun compiled-file-p (file)
  "Whether FILE is what ECL loads: it takes that for the source of what is compiled meanwhile."
  (and (implementation-p "ECL")
       (equal (pathname-type (compile-file-pathname "source.lisp")) (pathname-type file))))

(defun place-plist (place)
  (case (first place)
    (:file (unless (compiled-file-p (second place)) (list :file (second place))))
    (:buffer (list :buffer (second place)))
    (:buffer-and-file (list :buffer (second place) :file (third place)))
    (:zip (list :file (second place)))
    (:source-form (list :source (second place)))))

(defun position-plist (position)
  (case (first position)
    (:position (list :position (second position)))
    (:offset (list :position (+ (second position) (or (third position) 0))))
    (:line (list :line (second position)))))

(defun frame-location (number operator)
  "The client's location for the point where frame NUMBER, of OPERATOR, stopped."
  ;; The client reads the source again, which interns symbols and prints warnings.
  (let ((*package* (or (operator-package operator) *package*))
        (*error-output* (make-broadcast-stream)))
    (guarded (lambda () (backend "FRAME-SOURCE-LOCATION" number))
             (constantly nil))))

(defun frame-object (number)
  (first (backend "COMPUTE-BACKTRACE" number (1+ number))))

(defun changed-since-p (number file)
  "Whether FILE was written after the code of frame NUMBER was compiled, if known."
  (guarded (lambda ()
             (let ((created (and (implementation-p "SBCL")
                                 (internal "SB-C" "DEBUG-SOURCE-CREATED"
                                           (internal "SB-DI" "CODE-LOCATION-DEBUG-SOURCE"
                                                     (internal "SB-DI" "FRAME-CODE-LOCATION"
                                                               (frame-object number)))))))
               (and created (> (file-write-date file) created))))
           (constantly nil)))

(defun source-buffer-p (name)
  "Whether the buffer NAME has source: for code typed at the REPL, ABCL gives the REPL's buffer."
  (not (or (null name) (string= name "agent-q") (prefixed-p "*" name))))

(defun frame-place (number operator)
  "Where frame NUMBER, of OPERATOR, stopped, as properties for the wire; NIL if that isn't known, or
if the text was compiled for the caller."
  (let ((location (frame-location number operator)))
    (when (and (consp location) (eq (first location) :location))
      (destructuring-bind (place position &optional hints) (rest location)
        (let ((place (place-plist place)))
          (when (or (getf place :file) (source-buffer-p (getf place :buffer)))
            (list :location (append place (position-plist position)
                                    (list :snippet (and (evenp (length hints))
                                                        (getf hints :snippet))))
                  :changed (and (getf place :file) (not (getf place :buffer))
                                (changed-since-p number (getf place :file))))))))))
