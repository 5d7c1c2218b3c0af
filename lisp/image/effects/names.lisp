;;; SPDX-License-Identifier: GPL-3.0-or-later
;;; File names as the system takes them: absolute, with links followed as far as they exist. That is
;;; what the user is asked about and what rules are compared with.

(cl:in-package "AGENT-Q-IMAGE")

(defmacro directly (package name &rest arguments)
  "Call an internal function of SBCL, which is looked up only once: every file that is opened comes
through here."
  `(funcall (load-time-value (own-lookup ,package ,name)) ,@arguments))

(defun own-lookup (package name)
  (or (optional-function package name) 'internal-error))

(defun internal-error (&rest arguments)
  (error "This implementation lacks a function for ~S." arguments))

(defun unix-name (name &rest arguments)
  "The value of an SBCL function for system files, or NIL."
  (ignore-errors (values (apply #'internal "SB-UNIX" name arguments))))

(defun followed (name)
  "NAME, native and absolute, with all its links followed, even one that leads nowhere yet."
  (loop repeat 20
        do (let ((real (unix-name "UNIX-REALPATH" name)))
             (when real (return-from followed real))
             (let ((link (unix-name "UNIX-READLINK" name)))
               (unless link (return))
               (setf name (absolute-name link (directory-part name))))))
  (followed-but-last name))

(defun directory-part (name)
  "What comes before the last part of NAME, with its slash."
  (let* ((end (position #\/ name :test #'char/= :from-end t))
         (slash (and end (position #\/ name :end end :from-end t))))
    (if slash (subseq name 0 (1+ slash)) "/")))

(defun followed-but-last (name)
  "NAME with the links in its directory followed: deleting or renaming affects a link itself."
  (let* ((directory (directory-part name))
         (last (string-right-trim "/" (subseq name (min (length directory) (length name))))))
    (cond ((string= last "") name)
          ((member last '("." "..") :test #'string=) (or (unix-name "UNIX-REALPATH" name) name))
          (t (concatenate 'string
                          (string-right-trim "/" (if (string= directory "/") "/" (followed directory)))
                          "/" last)))))

(defun absolute-name (name &optional (directory (unix-name "UNIX-REALPATH" ".")))
  (if (and (plusp (length name)) (char= (char name 0) #\/))
      name
      (concatenate 'string (string-right-trim "/" (or directory "")) "/" name)))

(defun native-text (designator)
  "The native, absolute name that DESIGNATOR stands for, or NIL."
  (ignore-errors
   (let ((name (internal "SB-EXT" "NATIVE-NAMESTRING"
                         (translate-logical-pathname (merge-pathnames designator)))))
     (coerce (absolute-name name) '(simple-array character (*))))))

(defun real-name (designator &key link)
  "The name of the file DESIGNATOR as shown to the user; with LINK, that of a link itself."
  (let ((native (native-text designator)))
    (cond ((null native) (printed designator :limit 300 :writer #'princ))
          (link (followed-but-last native))
          (t (followed native)))))

(defun real-native-name (name &key link)
  "The same for NAME, in native syntax."
  (let ((name (absolute-name (coerce name 'string))))
    (if link (followed-but-last name) (followed name))))

(defun descriptor-name (descriptor)
  "The name of what DESCRIPTOR is open on, or NIL."
  (let* ((name (ignore-errors
                (values (directly "SB-UNIX" "UNIX-READLINK" (descriptor-link descriptor)))))
         (length (length name))
         (gone (- length 10)))
    (cond ((zerop length) nil)
          ((and (plusp gone)
                (char= #\) (char name (1- length)))
                (string= " (deleted)" name :start2 gone))
           (subseq name 0 gone))
          (t name))))

(defun descriptor-link (descriptor)
  "The link through which Linux tells what DESCRIPTOR is open on."
  (let ((table (load-time-value
                (coerce (loop for number below 64
                              collect (format nil "/proc/self/fd/~D" number))
                        'simple-vector))))
    (if (typep descriptor '(integer 0 63))
        (svref table descriptor)
        (let ((*print-base* 10) (*print-radix* nil))
          (concatenate 'string "/proc/self/fd/" (princ-to-string descriptor))))))
